package org.dynamicfilters.scan.statistics

import java.io.{FileNotFoundException, IOException}
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.util.SerializableConfiguration
import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.scan.{ScanReport, ScanSpec}

/** Facts about a split before its file is opened. [[SplitChooser]] sends them to the tasks.
  *
  * @param learned by column of the scan's spec, statistics of the split's row groups that earlier queries learned; null
  *   if unknown
  * @param fromTable by column of the spec, bounds from the table's own log. Files of such tables never change
  * @param bytes bytes of the columns that the scan reads, if known
  */
final class SplitFacts(
    learned: Array[Array[LearnedRowGroup]],
    fromTable: Array[ColumnBounds],
    val bytes: Option[Long]
) extends Serializable {
  def hasLearned: Boolean = learned.exists(_ != null)

  /** The row groups with learned statistics of a column. */
  def rowGroups(column: Int): Option[Array[LearnedRowGroup]] = learned.lift(column).flatMap(Option(_))

  /** Row groups from any column with learned statistics; for counting only. */
  def rowGroups: Option[Array[LearnedRowGroup]] = learned.find(_ != null)

  /** Bounds of a column that hold without a check of the file: from its partition, or from the table. */
  def certainBounds(spec: ScanSpec, file: PartitionedFile, column: Int): ColumnBounds = {
    val c = spec.columns(column)
    if (c.isPartitionColumn) ColumnBounds.exact(c.domain.fromRow(file.partitionValues, c.partitionOrdinal))
    else fromTable.lift(column).getOrElse(ColumnBounds.unknown)
  }

  /** Bounds of a column that hold if the file is unchanged since it was listed. */
  def bounds(spec: ScanSpec, file: PartitionedFile, column: Int): ColumnBounds =
    rowGroups(column)
      .map(FileStatistics.boundsOf(_, spec.columns(column).domain))
      .getOrElse(certainBounds(spec, file, column))

  def withoutLearned: SplitFacts = new SplitFacts(Array.empty, fromTable, None)
}

object SplitFacts {
  val none: SplitFacts = new SplitFacts(Array.empty, Array.empty, None)
}

/** Facts about the splits of a scan in one task.
  *
  * Learned statistics hold only for files that are unchanged since they were listed ([[FileChecks]]).
  */
private[scan] final class KnownFiles(report: ScanReport, checks: => FileChecks) {
  private val known = mutable.HashMap.empty[(String, Long), SplitFacts]
  private var hadoopConf: Broadcast[SerializableConfiguration] = _

  private def split(file: PartitionedFile) = (file.urlEncodedPath, file.start)

  /** @param conf for requests to the file system; null if there are no learned statistics */
  def add(file: PartitionedFile, facts: SplitFacts, conf: Broadcast[SerializableConfiguration]): Unit = {
    known(split(file)) = facts
    hadoopConf = conf
  }

  def apply(file: PartitionedFile): SplitFacts = known.getOrElse(split(file), SplitFacts.none)

  /** Drops the learned statistics of a file that has changed since it was listed. */
  def forget(file: PartitionedFile): Unit = {
    val facts = apply(file)
    if (facts.hasLearned) {
      known(split(file)) = facts.withoutLearned
      report.addReason(Reasons.FileChanged)
    }
  }

  /** Asks the file system whether the file is unchanged since it was listed. Drops its learned statistics if not. */
  def isAsListed(file: PartitionedFile): Boolean = {
    val answer = checks.isAsListed(file, hadoopConf.value.value)
    if (answer.contains(false)) forget(file)
    answer.contains(true)
  }
}

/** Asks the file system, once per query and process, whether files that learned statistics would exclude are unchanged.
  *
  * A listing may be stale, and stock Spark would open the file and read its current footer. So a file is skipped only
  * if it is still the one that the statistics were learned from. Asking is cheaper than opening the file.
  */
final class FileChecks {
  // By path; None for a missing file.
  private val answers = new ConcurrentHashMap[String, Option[FileIdentity]]()

  /** @return None if the file system has not answered */
  def isAsListed(file: PartitionedFile, conf: Configuration): Option[Boolean] =
    try {
      val now = answers.computeIfAbsent(
        file.urlEncodedPath,
        _ =>
          try Some(FileIdentity.fromStatus(file.toPath.getFileSystem(conf).getFileStatus(file.toPath)))
          catch { case _: FileNotFoundException => None }
      )
      Some(now.contains(FileIdentity.listed(file)))
    } catch { case _: IOException => None } // Spark shows it, when it opens the file
}
