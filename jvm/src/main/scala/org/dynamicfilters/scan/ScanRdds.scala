package org.dynamicfilters.scan

import scala.reflect.{classTag, ClassTag}

import org.apache.spark.{OneToOneDependency, Partition, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{FilePartition, FileScanRDD}
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.SerializableConfiguration
import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.state.TaskFilters

/** Has a task know of its scan before the scan's own RDD starts. */
abstract class AnnouncingRDD[T: ClassTag](prev: RDD[T])
    extends RDD[T](prev.sparkContext, Seq(new OneToOneDependency(prev))) {
  override protected def getPartitions: Array[Partition] = firstParent[T].partitions
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    firstParent[T].preferredLocations(split)
}

/** Announces a filtered scan to each task before the scan's own RDD starts.
  *
  * The order matters: completion listeners run in reverse, so the report is taken after the scan has closed its files.
  *
  * @param countsRows
  *   whether rows are counted here: the scan's reader knows nothing of filters
  */
final class ScanTaskRDD[T: ClassTag](
    prev: RDD[T],
    spec: ScanSpec,
    runs: IndexedSeq[Long],
    ready: ReadyFilters,
    snapshots: Option[ScanSnapshots],
    countsRows: Boolean,
    reports: ScanAccumulator,
    finish: ScanReport => Unit
) extends AnnouncingRDD[T](prev) {

  import ScanTaskRDD.hasRows

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    def made = new TaskScan(spec, runs, ready, snapshots, context, { r => finish(r); reports.add(r) })
    val task = TaskScan.begin(spec.scanId, context)(made)
    val inBatches = classTag[T] == classTag[ColumnarBatch]
    task.reads(split.index, inBatches)
    val all = firstParent[T].iterator(split, context)
    val rows =
      if (countsRows || (task.isFixed && spec.testsBatches)) new SnapshotSelector(task, countsRows)(all) else all
    if (inBatches) rows.filter(hasRows) else rows
  }
}

private object ScanTaskRDD {

  /** Filters leave some batches without rows, Spark's readers never do. Functions of whole batches are not made for it (a Python
    * function that takes columns, `x.iloc[0]`).
    */
  private def hasRows(batch: Any): Boolean = batch match {
    case b: ColumnarBatch =>
      val any = b.numRows > 0
      if (!any) b.closeIfFreeable()
      any
    case _ => true
  }
}

/** A file scan that reads chosen splits in a chosen order.
  *
  * `FileScanRDD` does the reading; it takes its files from the partition that it is given, not from its own list.
  *
  * Spark keeps it between executions of a plan. What was left out because its file was still the one that was listed, was so in
  * one execution: tasks of any other one look for themselves.
  *
  * @param left
  *   what was left out; null for nothing. Tasks that do not need it do not fetch it
  * @param leftIn
  *   the SQL execution in which it was
  * @param conf
  *   to ask the file system for files; null where nothing is known of them
  */
final class ChosenFileScanRDD(
    scan: FileScanRDD,
    spec: ScanSpec,
    @transient chosen: Array[ChosenSplits],
    left: Broadcast[ChosenSplits],
    leftIn: Option[Long],
    conf: Broadcast[SerializableConfiguration]
) extends RDD[InternalRow](scan.sparkContext, Nil) {
  // In a task the partitions are not there.
  private val tasks = chosen.length

  override protected def getPartitions: Array[Partition] = chosen.asInstanceOf[Array[Partition]]
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    split.asInstanceOf[ChosenSplits].files.preferredLocations().toSeq

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val part = withLeft(split.asInstanceOf[ChosenSplits], context)
    TaskScan.current(spec.scanId).foreach { task =>
      part.files.files.indices.foreach { i =>
        val file = part.files.files(i)
        if (part.known(i) != null) task.files.learn(file, part.known(i), conf)
        if (part.fromTable(i) != null) task.files.believe(file, part.fromTable(i))
      }
    }
    FileRuns.compute(scan, part.files, context)
  }

  private def withLeft(part: ChosenSplits, context: TaskContext): ChosenSplits =
    if (left == null || (leftIn.isDefined && leftIn == TaskFilters.executionId(context))) part
    else {
      val all = left.value
      val mine = all.files.files.indices.filter(_ % tasks == part.index)
      new ChosenSplits(
        FilePartition(part.index, part.files.files ++ mine.map(all.files.files(_))),
        part.known ++ mine.map(all.known(_)),
        part.fromTable ++ mine.map(all.fromTable(_))
      )
    }
}

/** Reads many files, of which some may have no rows.
  *
  * `FileScanRDD` goes from a file without rows to the next by a call of itself (Spark 4.1 to 4.3). Rows of its own predicates
  * alone seldom leave it so many such files in a row, but filters leave out all but one of ten thousand: a stack that overflows
  * ends the process. So it gets a few files at a time.
  */
private[dynamicfilters] object FileRuns {
  private[scan] val MostFiles = 200

  /** Spark's own partitions, where one of them has more. On the driver. */
  def of(scan: RDD[InternalRow]): Option[RDD[InternalRow]] = Some(scan).collect {
    case files: FileScanRDD if files.filePartitions.exists(_.files.length > MostFiles) => new FileRunsRDD(files)
  }

  def compute(scan: FileScanRDD, part: FilePartition, context: TaskContext): Iterator[InternalRow] =
    if (part.files.length <= MostFiles) scan.compute(part, context)
    else
      part.files.grouped(MostFiles).flatMap(files => scan.compute(FilePartition(part.index, files), context))
}

private final class FileRunsRDD(scan: FileScanRDD) extends RDD[InternalRow](scan.sparkContext, Nil) {
  override protected def getPartitions: Array[Partition] = scan.partitions
  override protected def getPreferredLocations(split: Partition): Seq[String] = scan.preferredLocations(split)
  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    FileRuns.compute(scan, split.asInstanceOf[FilePartition], context)
}

/** Splits of one task with what is known of them, null where nothing is.
  *
  * @param known
  *   what earlier queries learned of the row groups
  * @param fromTable
  *   bounds by column of the scan's spec that the table's format vouches for
  */
final class ChosenSplits(
    val files: FilePartition,
    val known: Array[LearnedColumns],
    val fromTable: Array[Array[ColumnBounds]]
) extends Partition {
  override def index: Int = files.index
}

/** What is known of the row groups of a split.
  *
  * @param byColumn
  *   by column of the scan's spec, null where nothing is known
  * @param bytes
  *   of the columns that the scan reads, if they are known
  */
final class LearnedColumns(byColumn: Array[Array[LearnedRowGroup]], val bytes: Option[Long]) extends Serializable {
  def of(column: Int): Option[Array[LearnedRowGroup]] = Option(byColumn(column))
}
