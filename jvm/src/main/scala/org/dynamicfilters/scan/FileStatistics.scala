package org.dynamicfilters.scan

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.locks.ReentrantLock

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.FileStatus
import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}

/** Distinguishes a file from one written later to the same path.
  *
  * @param length
  *   bytes
  * @param modified
  *   modification time, milliseconds since 1970
  */
final case class FileIdentity(length: Long, modified: Long)

object FileIdentity {
  def fromStatus(status: FileStatus): FileIdentity = FileIdentity(status.getLen, status.getModificationTime)

  /** The identity in the query's listing, which may be stale: views and cached tables keep their listings. */
  def listed(file: PartitionedFile): FileIdentity = FileIdentity(file.fileSize, file.modificationTime)
}

/** Statistics of one column in one row group.
  *
  * @param middle
  *   byte offset of the row group's middle, by which Parquet assigns row groups to splits
  * @param bytes
  *   compressed size of all columns of the row group
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
  * @param identity
  *   identity of the opened file
  * @param start
  *   first byte of the split
  * @param end
  *   first byte after the split
  * @param sizes
  *   sizes of all columns, sent with one of the split's columns
  */
final case class LearnedSplit(
    path: String,
    identity: FileIdentity,
    column: String,
    start: Long,
    end: Long,
    rowGroups: Array[LearnedRowGroup],
    sizes: Option[ChunkSizes] = None
)

/** Cache of column statistics of files that earlier queries have opened. On the driver.
  *
  * A file is identified by path, length and modification time when it was opened. Statistics order and estimate; they
  * exclude data only if [[FileChecks]], or opening the file, has shown that the file is unchanged. A file modified
  * within [[FileStatistics.SettledMillis]] before it was read is not stored: it could be rewritten with the same length
  * and time (git's "racy index" problem).
  *
  * Bounded by the number of row groups. Drops the least recently used files first.
  */
final class FileStatistics(maxRowGroups: Int) {
  import FileStatistics._
  private val files = new java.util.LinkedHashMap[FileId, FileEntry](64, 0.75f, true)
  private var rowGroups = 0
  private var changes = 0L
  private val arrived = new ConcurrentLinkedQueue[LearnedSplit]()
  private val waiting = new AtomicInteger

  /** Adds what a task has learned, mostly without a lock. Queued splits are merged by the next reader, or here if many
    * are queued.
    */
  def offer(split: LearnedSplit): Unit = {
    arrived.add(split)
    val now = waiting.incrementAndGet()
    // Called on the scheduler's thread, which must not wait for the lock. Its holder merges the queue later.
    if (now >= MostWaiting && lock.tryLock())
      try absorb()
      finally lock.unlock()
    else if (now > MostLeft && arrived.poll() != null) waiting.decrementAndGet()
  }

  private val lock = new ReentrantLock
  private def locked[A](body: => A): A = {
    lock.lock()
    try body
    finally lock.unlock()
  }

  /** @return
    *   the row groups of the split [start, end), if all are known
    */
  def find(
      path: String,
      identity: FileIdentity,
      column: String,
      start: Long,
      end: Long
  ): Option[Array[LearnedRowGroup]] =
    locked {
      absorb()
      for {
        file <- Option(files.get(FileId(path, identity)))
        c <- file.columns.get(column)
        groups <- c.splits
          .get((start, end))
          .orElse(
            c.splits
              .collectFirst {
                case ((s, e), g) if s <= start && e >= end => g.filter(_.mayBeOf(start, end))
              }
              .filter(_.nonEmpty)
          )
      } yield groups
    }

  /** @return
    *   compressed bytes of the wanted leaf columns in the split [start, end), if known
    */
  def bytes(path: String, identity: FileIdentity, start: Long, end: Long)(wanted: String => Boolean): Option[Long] =
    locked {
      absorb()
      Option(files.get(FileId(path, identity))).flatMap { file =>
        file.sizes
          .get((start, end))
          .orElse(file.sizes.collectFirst { case ((s, e), sizes) if s <= start && e >= end => sizes })
          .map(_.bytesOf(wanted, start, end))
      }
    }

  /** Changes whenever statistics are added. */
  def version: Long = locked { absorb(); changes }

  /** Statistics of files below one of the roots, least recently used first.
    *
    * @param roots
    *   paths of folders or files, as URL-encoded URIs
    * @param most
    *   largest number of row groups; the least recently used files are left out first
    */
  def below(roots: Seq[String], most: Int): Seq[FileRecord] = locked {
    absorb()
    val isBelow = FileStatistics.isBelow(roots)
    val found = files.asScala.iterator.collect {
      case (id, of) if isBelow(id.path) =>
        val splits =
          for ((column, c) <- of.columns.toSeq; ((start, end), groups) <- c.splits)
            yield LearnedSplit(id.path, id.identity, column, start, end, groups)
        (FileRecord(id.path, id.identity, splits, of.sizes.toSeq), of.weight)
    }.toVector
    var left = most
    found.reverseIterator.takeWhile { case (_, weight) => left -= weight; left >= 0 }.map(_._1).toVector.reverse
  }

  private def absorb(): Unit = {
    var s = arrived.poll()
    while (s != null) {
      waiting.decrementAndGet()
      val file = files.computeIfAbsent(FileId(s.path, s.identity), _ => new FileEntry)
      val column = file.columns.getOrElseUpdate(s.column, new Column)
      val old = column.splits.put((s.start, s.end), s.rowGroups)
      old match {
        case Some(groups) =>
          val both = sharper(groups, s.rowGroups)
          column.splits((s.start, s.end)) = both
          rowGroups += weightOf(both) - weightOf(groups)
          if (!groups.sameElements(both)) changes += 1
        case None =>
          rowGroups += weightOf(s.rowGroups)
          changes += 1
      }
      s.sizes.foreach { z =>
        if (file.sizes.put((s.start, s.end), z).isEmpty) {
          rowGroups += z.weight
          changes += 1
        }
      }
      s = arrived.poll()
    }
    val eldest = files.entrySet.iterator
    while (rowGroups > maxRowGroups && eldest.hasNext) {
      rowGroups -= eldest.next().getValue.weight
      eldest.remove()
    }
  }

  /** Queued splits, for tests. */
  private[scan] def waitingNow: Int = waiting.get

  /** Row groups held, for tests. */
  def size: Int = locked { absorb(); rowGroups }
  def clear(): Unit = locked { absorb(); files.clear(); rowGroups = 0 }
}

object FileStatistics {

  /** Whether a file is one of the roots or below one of them.
    *
    * @param roots
    *   URL-encoded URIs; possibly each partition's folder
    */
  def isBelow(roots: Seq[String]): String => Boolean = {
    val folders = roots.iterator.map(r => plain(r).stripSuffix("/")).toSet
    file =>
      val path = plain(file)
      Iterator
        .iterate(path.length)(at => path.lastIndexOf('/', at - 1))
        .takeWhile(_ > 0)
        .exists(at => folders(path.substring(0, at)))
  }

  // Hadoop writes both `file:/a` and `file:///a`.
  private def plain(path: String): String = path.replaceFirst("^(\\w+):///", "$1:/")

  private final case class FileId(path: String, identity: FileIdentity)
  private final class Column {
    val splits = mutable.HashMap.empty[(Long, Long), Array[LearnedRowGroup]]
  }
  private final class FileEntry {
    val columns = mutable.HashMap.empty[String, Column]
    val sizes = mutable.HashMap.empty[(Long, Long), ChunkSizes]

    def weight: Int =
      columns.valuesIterator.map(_.splits.valuesIterator.map(weightOf).sum).sum +
        sizes.valuesIterator.map(_.weight).sum
  }

  /** A row group counts once, and once more for each 100 bytes of its bounds, because strings may be long. */
  private def weightOf(groups: Array[LearnedRowGroup]): Int =
    groups.length + 1 + (groups.iterator.map(g => ReportRoom.bytesOf(g.bounds)).sum / 100).toInt

  val SettledMillis = 2000L

  /** Queued splits from which on [[offer]] tries to merge them. */
  private[scan] val MostWaiting = 1000

  /** Largest number of queued splits while the lock is held. */
  private val MostLeft = 20 * MostWaiting

  /** Whether a file was modified so long before it was opened that a file with the same length and time must be the
    * same.
    */
  def isSettled(file: FileIdentity, askedAt: Long): Boolean =
    file.modified > 0 && askedAt - file.modified > SettledMillis

  /** About 100 bytes a row group: at most some 20 MiB. */
  val instance = new FileStatistics(200000)

  /** Keeps known bounds: a later read may know less, because it skipped what an earlier one decoded. */
  private def sharper(old: Array[LearnedRowGroup], fresh: Array[LearnedRowGroup]): Array[LearnedRowGroup] = {
    val known = old.filter(_.bounds != ColumnBounds.unknown).map(g => g.middle -> g).toMap
    fresh.map(g => if (g.bounds == ColumnBounds.unknown) known.getOrElse(g.middle, g) else g)
  }

  /** Bounds of a split from those of its row groups. */
  def boundsOf(groups: Array[LearnedRowGroup], domain: KeyDomain): ColumnBounds =
    if (groups.isEmpty) ColumnBounds(null, null, mayHaveNulls = false, mayHaveValues = false)
    else groups.iterator.map(_.bounds).reduce((a, b) => ColumnBounds.merge(a, b)(domain))
}
