package org.dynamicfilters.scan.parquet

import scala.collection.mutable

import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{ColumnBounds, LongDomain}
import org.dynamicfilters.scan.{RowRanges, SplitRead}
import org.dynamicfilters.scan.statistics.{ChunkSizes, FileIdentity, FileStatistics, LearnedRowGroup, LearnedSplit}

/** Learns the bounds of the filtered columns in the row groups of a split, for later queries. They come from the footer
  * or, for the first column if its footer has none (INT96, files without statistics), from values that a first pass
  * decodes anyway. Used by [[DynamicRowGroups]].
  *
  * Statistics belong to the opened file. Those of earlier queries are used only if the opened file is the listed one:
  * the listing may be stale.
  */
final class StatisticsLearner(scan: SplitRead, access: ParquetReaderAccess, columns: IndexedSeq[FileColumn]) {
  import LearnedRowGroup.middle
  import scan.{file, task}

  // The column whose values are observed: that of the first filter, if files have it.
  private val at = columns.indexWhere(_.index == 0)
  private val decoded = mutable.HashMap.empty[Long, ColumnBounds]
  private val opened: Option[FileIdentity] = access.openedStatus.map(FileIdentity.fromStatus)
  if (opened.exists(_ != FileIdentity.listed(file))) task.files.forget(file)
  private val before: IndexedSeq[Map[Long, LearnedRowGroup]] = columns.map { c =>
    (if (opened.isEmpty) None else scan.facts.rowGroups(c.index))
      .fold(Map.empty[Long, LearnedRowGroup])(_.map(g => g.middle -> g).toMap)
  }

  /** Bounds that an earlier query has learned.
    *
    * @param column position among the filtered columns of the files
    */
  def learned(block: BlockMetaData, column: Int): Option[ColumnBounds] =
    before(column)
      .get(middle(block))
      .filter(g => g.rows == block.getRowCount && g.bytes == block.getCompressedSize)
      .map(_.bounds)

  /** Observes a pass over the whole column, if its bounds in the row group are unknown. */
  def watch(group: RowGroup, rows: Option[RowRanges]): Option[Watch] =
    if (at < 0 || !columns(at).isRead || rows.isDefined || group.bounds(at).min != null || group.bounds(at).max != null)
      None
    else
      columns(at).filtered.domain match {
        case d: LongDomain => Some(new Watch(group, d))
        case _ => None
      }

  final class Watch(group: RowGroup, domain: LongDomain) {
    private var (min, max) = (Long.MaxValue, Long.MinValue)
    private var values, nulls = false

    /** @param column by position in the required schema */
    def add(column: Int => ColumnVector, n: Int): Unit = {
      val v = column(columns(at).ordinal)
      val checkNulls = v.hasNull
      var i = 0
      while (i < n) {
        if (checkNulls && v.isNullAt(i)) nulls = true
        else {
          val k = domain.longFromVector(v, i)
          if (k < min) min = k
          if (k > max) max = k
          values = true
        }
        i += 1
      }
    }

    /** Called at the end of the pass. */
    def finish(): Unit = if (values || nulls) {
      val b =
        if (values) ColumnBounds(Long.box(min), Long.box(max), nulls, mayHaveValues = true)
        else ColumnBounds.onlyNulls
      decoded(middle(group.block)) = b
      group.bounds(at) = b
    }
  }

  /** Reports the statistics of all row groups of the split, including those that static predicates exclude. */
  def finish(blocks: Seq[BlockMetaData]): Unit = {
    val settled = opened.filter(FileStatistics.isSettled(_, scan.askedAt))
    // Sent once, and only if the driver does not have them from an earlier query.
    lazy val sizes = if (scan.facts.bytes.isDefined) None else ChunkSizes.fromBlocks(blocks)
    val stored = columns.indices.filter(columns(_).isStored)
    for (identity <- settled; column <- stored) {
      val groups = blocks.map { b =>
        val fresh = if (column == at) decoded.get(middle(b)) else None
        val bounds = fresh.orElse(learned(b, column)).getOrElse(columns(column).bounds(b))
        LearnedRowGroup.fromBlock(b, bounds)
      }
      task.report.learn(
        LearnedSplit(
          file.urlEncodedPath,
          identity,
          task.spec.statisticsKey(columns(column).filtered),
          file.start,
          file.start + file.length,
          groups.toArray,
          if (column == stored.head) sizes else None
        )
      )
    }
  }
}
