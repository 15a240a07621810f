package org.dynamicfilters.scan

import scala.reflect.{classTag, ClassTag}

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{FilePartition, FileScanRDD}
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.SerializableConfiguration
import org.dynamicfilters.scan.statistics.SplitFacts

/** Base of RDDs that create a scan's per-task object before the scan's own RDD starts. */
abstract class AnnouncingRDD[T: ClassTag](prev: RDD[T]) extends RDD[T](prev) {
  override protected def getPartitions: Array[Partition] = firstParent[T].partitions
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    firstParent[T].preferredLocations(split)
}

/** Creates the [[TaskScan]] of each task before the scan's own RDD starts.
  *
  * The order matters: task completion listeners run in reverse, so the report is taken after the scan has closed its
  * files.
  *
  * @param countsRows whether rows are counted here, because the scan's reader does not use filters
  */
final class ScanTaskRDD[T: ClassTag](prev: RDD[T], spec: ScanSpec, countsRows: Boolean, make: TaskContext => TaskScan)
    extends AnnouncingRDD[T](prev) {

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    val task = TaskScan.begin(spec.scanId, context)(make(context))
    task.startPartition(split.index)
    val all = firstParent[T].iterator(split, context)
    val rows =
      if (countsRows || (task.isFixed && spec.testsBatches)) new SnapshotSelector(task, countsRows)(all) else all
    if (classTag[T] == classTag[ColumnarBatch]) rows.filter(hasRows) else rows
  }

  /** Filters may leave batches without rows, which Spark's readers never return. Functions of whole batches may fail on
    * them, for example a pandas function with `x.iloc[0]`.
    */
  private def hasRows(batch: Any): Boolean = batch match {
    case b: ColumnarBatch =>
      val any = b.numRows > 0
      if (!any) b.closeIfFreeable()
      any
    case _ => true
  }
}

/** Reads the splits that [[SplitChooser]] has chosen, in its order. `FileScanRDD` does the reading.
  *
  * @param conf to ask the file system; null if there are no learned statistics
  */
final class ChosenFileScanRDD(
    scan: FileScanRDD,
    spec: ScanSpec,
    @transient chosen: Seq[ChosenSplits],
    conf: Broadcast[SerializableConfiguration]
) extends RDD[InternalRow](scan.sparkContext, Nil) {
  override protected def getPartitions: Array[Partition] = chosen.toArray
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    split.asInstanceOf[ChosenSplits].files.preferredLocations().toSeq

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val part = split.asInstanceOf[ChosenSplits]
    TaskScan.current(spec.scanId).foreach { task =>
      part.files.files.zip(part.facts).foreach { case (file, facts) => task.files.add(file, facts, conf) }
    }
    FileRuns.compute(scan, part.files, context)
  }
}

/** Reads many files, some of which may have no rows.
  *
  * `FileScanRDD` moves from a file without rows to the next one by recursion (Spark 4.1 to 4.3). Filters may exclude
  * ten thousand files in a row, so that the stack overflows, which ends the process. So FileScanRDD gets a few files at
  * a time.
  */
private[dynamicfilters] object FileRuns {
  private[scan] val MostFiles = 200

  /** Replaces a FileScanRDD that has a partition with more files. On the driver. */
  def of(scan: RDD[InternalRow]): Option[RDD[InternalRow]] = Some(scan).collect {
    case files: FileScanRDD if files.filePartitions.exists(_.files.length > MostFiles) => new FileRunsRDD(files)
  }

  def compute(scan: FileScanRDD, part: FilePartition, context: TaskContext): Iterator[InternalRow] =
    if (part.files.length <= MostFiles) scan.compute(part, context)
    else
      part.files.grouped(MostFiles).flatMap(files => scan.compute(FilePartition(part.index, files), context))
}

/** A FileScanRDD that reads its files in runs, see [[FileRuns]]. */
private final class FileRunsRDD(scan: FileScanRDD) extends RDD[InternalRow](scan.sparkContext, Nil) {
  override protected def getPartitions: Array[Partition] = scan.partitions
  override protected def getPreferredLocations(split: Partition): Seq[String] = scan.preferredLocations(split)
  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    FileRuns.compute(scan, split.asInstanceOf[FilePartition], context)
}

/** The splits of one task, and the facts about each. */
final class ChosenSplits(val files: FilePartition, val facts: Array[SplitFacts]) extends Partition {
  override def index: Int = files.index
}
