package org.dynamicfilters.scan

import scala.collection.mutable

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.util.SerializableConfiguration
import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.reasons.Reasons

/** What one task knows of the files of its scan before it opens them: what its table says, and what earlier queries learned.
  *
  * What was learned holds only as long as a file is the one that was listed ([[FileChecks]]).
  */
private[scan] final class KnownFiles(spec: ScanSpec, report: ScanReport, checks: => FileChecks) {
  private val learned = mutable.HashMap.empty[(String, Long), LearnedColumns]
  private val fromTable = mutable.HashMap.empty[String, Array[ColumnBounds]]
  private var hadoopConf: Broadcast[SerializableConfiguration] = _

  private def split(file: PartitionedFile) = (file.urlEncodedPath, file.start)

  /** Takes what the driver learned of a split.
    *
    * @param conf
    *   to ask the file system for a file
    */
  def learn(file: PartitionedFile, columns: LearnedColumns, conf: Broadcast[SerializableConfiguration]): Unit = {
    learned(split(file)) = columns
    hadoopConf = conf
  }

  /** Takes what the table says of a file, which never changes.
    *
    * @param bounds
    *   by column of the spec
    */
  def believe(file: PartitionedFile, bounds: Array[ColumnBounds]): Unit = fromTable(file.urlEncodedPath) = bounds

  /** The file is another one than was listed. */
  def forget(file: PartitionedFile): Unit =
    if (learned.remove(split(file)).isDefined) report.addReason(Reasons.FileChanged)

  def hasLearned(file: PartitionedFile): Boolean = learned.contains(split(file))

  /** The row groups of a split, with what was learned of a column of the spec. */
  def rowGroups(file: PartitionedFile, column: Int): Option[Array[LearnedRowGroup]] =
    learned.get(split(file)).flatMap(_.of(column))

  /** The row groups of a split, with what was learned of whatever column: enough to count them. */
  def rowGroups(file: PartitionedFile): Option[Array[LearnedRowGroup]] =
    spec.columns.indices.iterator.flatMap(rowGroups(file, _)).nextOption()

  /** Bytes that the scan would read of a split. */
  def bytes(file: PartitionedFile): Option[Long] = learned.get(split(file)).flatMap(_.bytes)

  /** Bounds of a column of the spec that hold whatever became of the file since: by its partition, or by the table. */
  def certainBounds(file: PartitionedFile, column: Int): ColumnBounds = {
    val c = spec.columns(column)
    if (c.isPartitionColumn) c.partitionBounds(file.partitionValues)
    else fromTable.get(file.urlEncodedPath).fold(ColumnBounds.unknown)(_(column))
  }

  /** Bounds of a column of the spec while the file is as it was listed. */
  def bounds(file: PartitionedFile, column: Int): ColumnBounds =
    rowGroups(file, column)
      .map(FileStatistics.boundsOf(_, spec.columns(column).domain))
      .getOrElse(certainBounds(file, column))

  /** Asks the file system whether the file is still the one that was listed. What was learned of another one is forgotten. */
  def isAsListed(file: PartitionedFile): Boolean = {
    val answer = checks.ask(file, hadoopConf.value.value)
    if (answer.contains(false)) forget(file)
    answer.contains(true)
  }
}
