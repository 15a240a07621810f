package org.dynamicfilters.scan

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.locks.ReentrantLock

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}

/** What is known of one column in one row group.
  *
  * @param middle
  *   byte offset of the row group's middle, by which Parquet assigns row groups to splits
  * @param bytes
  *   compressed size of all its columns
  */
final case class LearnedRowGroup(middle: Long, rows: Long, bytes: Long, bounds: ColumnBounds) {

  /** Whether Parquet may assign it to a split. A footer has sizes of row groups beside those of their columns, by which Parquet
    * goes and which its metadata does not show: they need not be the same. So it may be any split that has a part of it; and of
    * a split that has a part of none nothing is known.
    */
  def mayBeOf(start: Long, end: Long): Boolean = middle - bytes / 2 < end && middle + (bytes + 1) / 2 > start

  /** Whether reports count it in a split: of the splits of a file it is one. */
  def countsIn(start: Long, end: Long): Boolean = start <= middle && middle < end
}

object LearnedRowGroup {
  def of(block: BlockMetaData, bounds: ColumnBounds): LearnedRowGroup =
    LearnedRowGroup(middle(block), block.getRowCount, block.getCompressedSize, bounds)

  /** As Parquet assigns row groups to splits (ParquetMetadataConverter). */
  def middle(block: BlockMetaData): Long = block.getStartingPos + block.getCompressedSize / 2
}

/** What a task learned of one column in one split of a file.
  *
  * @param identity
  *   of the file that was opened
  * @param start
  *   first byte of the split
  * @param end
  *   first byte after it
  * @param sizes
  *   of all columns; with one of the split's columns only
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

/** Column statistics of files that earlier queries have opened, on the driver.
  *
  * A file is known by path, length and modification time, as they were when it was opened. What is found for a listed file
  * orders and estimates; it excludes data only where [[FileChecks]], or opening the file, showed that the file is still that
  * one. A file modified within [[FileStatistics.SettledMillis]] before it
  * was read is not remembered: it could be written anew with the same length and time (the "racy" problem of git's index).
  *
  * Bounded by row groups, least recently used files first.
  */
final class FileStatistics(maxRowGroups: Int) {
  import FileStatistics._
  private val files = new java.util.LinkedHashMap[FileId, OfFile](64, 0.75f, true)
  private var rowGroups = 0
  private var changes = 0L
  private val arrived = new ConcurrentLinkedQueue[LearnedSplit]()
  private val waiting = new AtomicInteger

  /** Takes what a task learned, mostly without a lock. Where nobody asks, as an application that executes the same plans again
    * and again plans nothing, it does not wait for that.
    */
  def offer(split: LearnedSplit): Unit = {
    arrived.add(split)
    val now = waiting.incrementAndGet()
    // Called on the scheduler's thread: whoever holds the lock may be writing all of a table, and takes it in then.
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
    *   the row groups of the split [start, end) if all of them are known
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
    *   compressed bytes of the wanted leaf columns in the split [start, end), if they are known
    */
  def bytes(path: String, identity: FileIdentity, start: Long, end: Long)(wanted: String => Boolean): Option[Long] =
    locked {
      absorb()
      Option(files.get(FileId(path, identity))).flatMap { file =>
        file.sizes
          .get((start, end))
          .orElse(file.sizes.collectFirst { case ((s, e), sizes) if s <= start && e >= end => sizes })
          .map(_.of(wanted, start, end))
      }
    }

  /** Another one whenever more is known. */
  def version: Long = locked { absorb(); changes }

  /** What is known of files below one of the roots, least recently used first.
    *
    * @param roots
    *   paths of folders or files, encoded as URIs
    * @param most
    *   as many row groups; the least recently used files are left out first
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
      val file = files.computeIfAbsent(FileId(s.path, s.identity), _ => new OfFile)
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

  /** Splits that wait, for tests. */
  private[scan] def waitingNow: Int = waiting.get

  /** Row groups held, for tests. */
  def size: Int = locked { absorb(); rowGroups }
  def clear(): Unit = locked { absorb(); files.clear(); rowGroups = 0 }
}

object FileStatistics {

  /** Whether a file is in one of the folders, or is one itself.
    *
    * @param roots
    *   URIs, encoded. Of a table of partitions each folder may be one
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

  // Hadoop writes `file:/a` and `file:///a`.
  private def plain(path: String): String = path.replaceFirst("^(\\w+):///", "$1:/")

  private final case class FileId(path: String, identity: FileIdentity)
  private final class Column {
    val splits = mutable.HashMap.empty[(Long, Long), Array[LearnedRowGroup]]
  }
  private final class OfFile {
    val columns = mutable.HashMap.empty[String, Column]
    val sizes = mutable.HashMap.empty[(Long, Long), ChunkSizes]

    def weight: Int =
      columns.valuesIterator.map(_.splits.valuesIterator.map(weightOf).sum).sum +
        sizes.valuesIterator.map(_.weight).sum
  }

  /** A row group counts once, and once more for each 100 bytes of its bounds: of texts these may be kilobytes. */
  private def weightOf(groups: Array[LearnedRowGroup]): Int =
    groups.length + 1 + (groups.iterator.map(g => ReportRoom.bytesOf(g.bounds)).sum / 100).toInt

  val SettledMillis = 2000L

  /** Splits that wait for somebody to ask: of a few bytes to some kilobytes each. */
  private[scan] val MostWaiting = 1000

  /** As many at most, while they cannot be taken in. */
  private val MostLeft = 20 * MostWaiting

  /** Whether a file was written so long before it was opened that one with the same length and time is the same file. */
  def isSettled(file: FileIdentity, askedAt: Long): Boolean =
    file.modified > 0 && askedAt - file.modified > SettledMillis

  /** About 100 bytes a row group: at most some 20 MiB. */
  val instance = new FileStatistics(200000)

  /** A later reading may know less (it pruned what an earlier one decoded); the bounds that are known are kept. */
  private def sharper(old: Array[LearnedRowGroup], fresh: Array[LearnedRowGroup]): Array[LearnedRowGroup] = {
    val known = old.filter(_.bounds != ColumnBounds.unknown).map(g => g.middle -> g).toMap
    fresh.map(g => if (g.bounds == ColumnBounds.unknown) known.getOrElse(g.middle, g) else g)
  }

  /** Bounds of a split from those of its row groups. */
  def boundsOf(groups: Array[LearnedRowGroup], domain: KeyDomain): ColumnBounds =
    if (groups.isEmpty) ColumnBounds(null, null, mayHaveNulls = false, mayHaveValues = false)
    else groups.iterator.map(_.bounds).reduce((a, b) => ColumnBounds.merge(a, b)(domain))
}
