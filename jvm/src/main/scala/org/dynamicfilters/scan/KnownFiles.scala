package org.dynamicfilters.scan

import scala.collection.mutable

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.util.SerializableConfiguration
import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.reasons.Reasons

/** Facts about the files of a scan before a task opens them: bounds from the table, and statistics that earlier queries learned.
  *
  * Learned statistics hold only for files that are unchanged since they were listed ([[FileChecks]]).
  */
private[scan] final class KnownFiles(spec: ScanSpec, report: ScanReport, checks: => FileChecks) {
  private val learned = mutable.HashMap.empty[(String, Long), LearnedColumns]
  private val fromTable = mutable.HashMap.empty[String, Array[ColumnBounds]]
  private var hadoopConf: Broadcast[SerializableConfiguration] = _

  private def split(file: PartitionedFile) = (file.urlEncodedPath, file.start)

  /** Adds learned statistics of a split, from the driver.
    *
    * @param conf
    *   for requests to the file system
    */
  def addLearned(file: PartitionedFile, columns: LearnedColumns, conf: Broadcast[SerializableConfiguration]): Unit = {
    learned(split(file)) = columns
    hadoopConf = conf
  }

  /** Adds the table's bounds of a file, which never change.
    *
    * @param bounds
    *   by column of the spec
    */
  def addTableBounds(file: PartitionedFile, bounds: Array[ColumnBounds]): Unit =
    fromTable(file.urlEncodedPath) = bounds

  /** Drops the learned statistics of a file that has changed since it was listed. */
  def forget(file: PartitionedFile): Unit =
    if (learned.remove(split(file)).isDefined) report.addReason(Reasons.FileChanged)

  def hasLearned(file: PartitionedFile): Boolean = learned.contains(split(file))

  /** The row groups of a split with learned statistics of a column of the spec. */
  def rowGroups(file: PartitionedFile, column: Int): Option[Array[LearnedRowGroup]] =
    learned.get(split(file)).flatMap(_.rowGroups(column))

  /** Row groups of a split, taken from any column with learned statistics; for counting only. */
  def rowGroups(file: PartitionedFile): Option[Array[LearnedRowGroup]] =
    spec.columns.indices.iterator.flatMap(rowGroups(file, _)).nextOption()

  /** Bytes that the scan would read of a split. */
  def bytes(file: PartitionedFile): Option[Long] = learned.get(split(file)).flatMap(_.bytes)

  /** Bounds of a column of the spec that hold without a check of the file: from its partition, or from the table. */
  def certainBounds(file: PartitionedFile, column: Int): ColumnBounds = {
    val c = spec.columns(column)
    if (c.isPartitionColumn) c.partitionBounds(file.partitionValues)
    else fromTable.get(file.urlEncodedPath).fold(ColumnBounds.unknown)(_(column))
  }

  /** Bounds of a column of the spec that hold if the file is unchanged since it was listed. */
  def bounds(file: PartitionedFile, column: Int): ColumnBounds =
    rowGroups(file, column)
      .map(FileStatistics.boundsOf(_, spec.columns(column).domain))
      .getOrElse(certainBounds(file, column))

  /** Asks the file system whether the file is unchanged since it was listed. Drops its learned statistics if not. */
  def isAsListed(file: PartitionedFile): Boolean = {
    val answer = checks.ask(file, hadoopConf.value.value)
    if (answer.contains(false)) forget(file)
    answer.contains(true)
  }
}
