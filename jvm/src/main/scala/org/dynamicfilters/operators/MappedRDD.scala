package org.dynamicfilters.operators

import scala.reflect.ClassTag

import org.apache.spark.{Partition, Partitioner, TaskContext}
import org.apache.spark.rdd.RDD

/** `rdd.mapPartitionsWithIndex` with `preservesPartitioning`, but without cleaning the closure. Spark reads class files for that,
  * which took 2 of the 60 ms of a short query.
  *
  * @param f must be serializable and must not reference an operator. Gets the partition index of this RDD, which may
  *   differ from the task's
  */
final class MappedRDD[T: ClassTag, U: ClassTag](prev: RDD[T], f: (Int, Iterator[T]) => Iterator[U])
    extends RDD[U](prev) {
  override val partitioner: Option[Partitioner] = prev.partitioner
  override protected def getPartitions: Array[Partition] = firstParent[T].partitions
  override def compute(split: Partition, context: TaskContext): Iterator[U] =
    f(split.index, firstParent[T].iterator(split, context))
}
