package org.dynamicfilters.scan

import scala.reflect.{classTag, ClassTag}

import org.apache.spark.{OneToOneDependency, Partition, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{FilePartition, FileScanRDD}
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.SerializableConfiguration

/** Announces a filtered scan to each task before the scan's own RDD starts.
  *
  * The order matters: completion listeners run in reverse, so the report is taken after the scan has closed its files.
  */
final class ScanTaskRDD[T: ClassTag](
    prev: RDD[T],
    spec: ScanSpec,
    runs: IndexedSeq[Long],
    ready: ReadyFilters,
    snapshots: Option[ScanSnapshots],
    reports: ScanAccumulator,
    finish: ScanReport => Unit
) extends RDD[T](prev.sparkContext, Seq(new OneToOneDependency(prev))) {
  override protected def getPartitions: Array[Partition] = firstParent[T].partitions
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    firstParent[T].preferredLocations(split)

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    val task = TaskScan.begin(
      spec,
      runs,
      ready,
      snapshots,
      context,
      { report =>
        finish(report)
        reports.add(report)
      }
    )
    task.reads(split.index, inBatches = classTag[T] == classTag[ColumnarBatch])
    val rows = firstParent[T].iterator(split, context)
    if (task.isFixed && spec.testsBatches) new SnapshotTest(task)(rows) else rows
  }
}

/** A file scan that reads chosen splits in a chosen order.
  *
  * `FileScanRDD` does the reading; it takes its files from the partition that it is given, not from its own list.
  *
  * @param conf
  *   to ask the file system for files; null where nothing is known of them
  */
final class ChosenFileScanRDD(
    scan: FileScanRDD,
    spec: ScanSpec,
    chosen: Array[ChosenSplits],
    conf: Broadcast[SerializableConfiguration]
) extends RDD[InternalRow](scan.sparkContext, Nil) {
  override protected def getPartitions: Array[Partition] = chosen.asInstanceOf[Array[Partition]]
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    split.asInstanceOf[ChosenSplits].files.preferredLocations().toSeq

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val part = split.asInstanceOf[ChosenSplits]
    TaskScan.current(spec.scanId).foreach { task =>
      part.files.files.indices.foreach { i =>
        if (part.known(i) != null) task.know(part.files.files(i), part.known(i), conf)
      }
    }
    scan.compute(part.files, context)
  }
}

/** Splits of one task with what is known of them, null where nothing is. */
final class ChosenSplits(val files: FilePartition, val known: Array[LearnedColumns]) extends Partition {
  override def index: Int = files.index
}

/** What is known of the row groups of a split.
  *
  * @param byColumn
  *   by column of the scan's spec, null where nothing is known
  */
final class LearnedColumns(byColumn: Array[Array[LearnedRowGroup]]) extends Serializable {
  def of(column: Int): Option[Array[LearnedRowGroup]] = Option(byColumn(column))
}
