package org.dynamicfilters.scan.statistics

import scala.collection.mutable

import org.apache.hadoop.fs.FileStatus
import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}
import org.dynamicfilters.scan.ReportRoom

/** Distinguishes a file from one written later to the same path.
  *
  * @param modified modification time, milliseconds since 1970
  */
final case class FileIdentity(length: Long, modified: Long)

object FileIdentity {
  def fromStatus(status: FileStatus): FileIdentity = FileIdentity(status.getLen, status.getModificationTime)

  /** The identity in the query's listing, which may be stale: views and cached tables keep their listings. */
  def listed(file: PartitionedFile): FileIdentity = FileIdentity(file.fileSize, file.modificationTime)
}

/** Statistics of one column in one row group.
  *
  * @param middle byte offset of the row group's middle, by which Parquet assigns row groups to splits
  * @param bytes compressed size of all columns of the row group
  */
final case class LearnedRowGroup(middle: Long, rows: Long, bytes: Long, bounds: ColumnBounds) {

  /** Whether Parquet may assign the row group to the split. Parquet goes by sizes that its metadata API does not show
    * and that may differ from the sums of the columns' sizes. So this is true for all splits that overlap the row
    * group.
    */
  def mayBeOf(start: Long, end: Long): Boolean = middle - bytes / 2 < end && middle + (bytes + 1) / 2 > start

  /** Whether reports count the row group in the split: true for exactly one split of a file. */
  def countsIn(start: Long, end: Long): Boolean = start <= middle && middle < end
}

object LearnedRowGroup {
  def fromBlock(block: BlockMetaData, bounds: ColumnBounds): LearnedRowGroup =
    LearnedRowGroup(middle(block), block.getRowCount, block.getCompressedSize, bounds)

  /** The offset by which Parquet assigns row groups to splits (ParquetMetadataConverter). */
  def middle(block: BlockMetaData): Long = block.getStartingPos + block.getCompressedSize / 2
}

/** Statistics that a task has learned of one column in one split of a file.
  *
  * @param identity identity of the opened file
  * @param start first byte of the split
  * @param end first byte after the split
  * @param sizes sizes of all columns, sent with one of the split's columns
  */
final case class LearnedSplit(
    path: String,
    identity: FileIdentity,
    column: String,
    start: Long,
    end: Long,
    rowGroups: Array[LearnedRowGroup],
    sizes: Option[ChunkSizes] = None
) {
  def key: (String, Long, Long) = (column, start, end)
  def covers(from: Long, to: Long): Boolean = start <= from && to <= end
}

/** Cache of column statistics of files that earlier queries have opened. On the driver.
  *
  * A file is identified by path, length and modification time when it was opened. Statistics may always order files and
  * estimate sizes. They exclude data only after [[FileChecks]], or opening the file, has shown that the file is
  * unchanged. A file modified within [[FileStatistics.SettledMillis]] before it was read is not stored: it could be
  * rewritten with the same length and time (git's "racy index" problem).
  *
  * Bounded by the number of row groups. Drops the least recently used files first.
  */
final class FileStatistics(maxRowGroups: Int) {
  import FileStatistics._
  private val files = new java.util.LinkedHashMap[FileId, SplitsOfFile](64, 0.75f, true)
  private var rowGroups = 0

  /** Adds what a task has learned. */
  def offer(fresh: LearnedSplit): Unit = synchronized {
    val file = files.computeIfAbsent(FileId(fresh.path, fresh.identity), _ => mutable.HashMap.empty)
    val old = file.put(fresh.key, fresh)
    val split = old.fold(fresh)(merged(_, fresh))
    file(fresh.key) = split
    rowGroups += weightOf(split) - old.fold(0)(weightOf)
    val eldest = files.entrySet.iterator
    while (rowGroups > maxRowGroups && eldest.hasNext) {
      rowGroups -= eldest.next().getValue.valuesIterator.map(weightOf).sum
      eldest.remove()
    }
  }

  /** @return the row groups of the split [start, end), if all are known */
  def find(
      path: String,
      identity: FileIdentity,
      column: String,
      start: Long,
      end: Long
  ): Option[Array[LearnedRowGroup]] = synchronized {
    Option(files.get(FileId(path, identity))).flatMap { file =>
      def within = file.valuesIterator
        .find(s => s.column == column && s.covers(start, end))
        .map(_.rowGroups.filter(_.mayBeOf(start, end)))
        .filter(_.nonEmpty)
      file.get((column, start, end)).map(_.rowGroups).orElse(within)
    }
  }

  /** @return compressed bytes of the wanted leaf columns in the split [start, end), if known */
  def bytes(path: String, identity: FileIdentity, start: Long, end: Long)(wanted: String => Boolean): Option[Long] =
    synchronized {
      Option(files.get(FileId(path, identity))).flatMap {
        _.valuesIterator.filter(_.covers(start, end)).flatMap(_.sizes).nextOption().map(_.bytesOf(wanted, start, end))
      }
    }

  /** Row groups held, for tests. */
  def size: Int = synchronized(rowGroups)

  /** Forgets everything: for tests and benchmarks, which call it by name from Python. */
  def clear(): Unit = synchronized { files.clear(); rowGroups = 0 }
}

object FileStatistics {

  private final case class FileId(path: String, identity: FileIdentity)

  /** By column, start and end. */
  private type SplitsOfFile = mutable.HashMap[(String, Long, Long), LearnedSplit]

  /** A row group counts once, and once more for each 100 bytes of its bounds, because strings may be long. */
  private def weightOf(split: LearnedSplit): Int =
    split.rowGroups.length + 1 + (split.rowGroups.iterator.map(g => ReportRoom.bytesOf(g.bounds)).sum / 100).toInt +
      split.sizes.fold(0)(_.weight)

  val SettledMillis = 2000L

  /** Whether a file was modified so long before it was opened that a file with the same length and time must be the
    * same.
    */
  def isSettled(file: FileIdentity, askedAt: Long): Boolean =
    file.modified > 0 && askedAt - file.modified > SettledMillis

  /** About 100 bytes a row group: at most some 20 MiB. */
  val instance = new FileStatistics(200000)

  /** Keeps known bounds: a later read may know less, because it skipped what an earlier one decoded. */
  private def merged(old: LearnedSplit, fresh: LearnedSplit): LearnedSplit = {
    val known = old.rowGroups.filter(_.bounds != ColumnBounds.unknown).map(g => g.middle -> g).toMap
    val groups = fresh.rowGroups.map(g => if (g.bounds == ColumnBounds.unknown) known.getOrElse(g.middle, g) else g)
    fresh.copy(rowGroups = groups, sizes = fresh.sizes.orElse(old.sizes))
  }

  /** Bounds of a split from those of its row groups. */
  def boundsOf(groups: Array[LearnedRowGroup], domain: KeyDomain): ColumnBounds =
    if (groups.isEmpty) ColumnBounds(null, null, mayHaveNulls = false, mayHaveValues = false)
    else groups.iterator.map(_.bounds).reduce((a, b) => ColumnBounds.merge(a, b)(domain))
}
