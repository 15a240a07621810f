package org.dynamicfilters.scan.sources

import scala.reflect.ClassTag

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.dynamicfilters.exchange.ExecutorExchange
import org.dynamicfilters.filter.{KeyDomain, ValueFilter}
import org.dynamicfilters.scan.{AnnouncingRDD, ScanFilters, SentFilters}
import org.dynamicfilters.state.{RunningTasks, ScanInTask}

/** The filters of custom scans in one task.
  *
  * A scan's filters hold nothing of an execution, because a plan may be executed twice. They find this object through
  * the running task.
  */
private final class ConsumerTask(
    filters: IndexedSeq[ApiFilter],
    sent: SentFilters,
    context: TaskContext
) extends ScanInTask {
  private val inForce = new ScanFilters(filters, sent, context)

  def current(filter: ApiFilter): Option[ValueFilter] = {
    val at = filters.indexWhere(f => f.id == filter.id && f.domain == filter.domain)
    Option.when(at >= 0)(inForce(at))
  }

  /** Called when the scan starts to read a partition. */
  def startPartition(partition: Int): Unit = inForce.startPartition(partition)
  override def close(): Unit = ()
}

object ConsumerTask {
  private[scan] final case class Key(filters: IndexedSeq[(Long, KeyDomain)])

  /** The filter in the running task; None outside of a task of the scan. */
  private[scan] def current(filter: ApiFilter): Option[ValueFilter] =
    Option(TaskContext.get())
      .flatMap(RunningTasks.find)
      .flatMap(_.all[ConsumerTask].flatMap(_.current(filter)).nextOption())
}

/** Creates the [[ConsumerTask]] of each task before the custom scan's own RDD starts. */
final class ConsumerTaskRDD[T: ClassTag](
    prev: RDD[T],
    filters: IndexedSeq[ApiFilter],
    sent: SentFilters
) extends AnnouncingRDD[T](prev) {
  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    ExecutorExchange.start()
    val key = ConsumerTask.Key(filters.map(f => (f.id, f.domain)))
    RunningTasks
      .of(context)
      .attach(key)(new ConsumerTask(filters, sent, context))
      .foreach(_.startPartition(split.index))
    firstParent[T].iterator(split, context)
  }
}
