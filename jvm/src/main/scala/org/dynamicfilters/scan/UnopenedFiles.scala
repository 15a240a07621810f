package org.dynamicfilters.scan

import java.net.URI
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.filter2.compat.FilterCompat
import org.apache.parquet.filter2.predicate.FilterPredicate
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.{BlockMetaData, FileMetaData}
import org.apache.parquet.hadoop.util.HadoopInputFile

/** What a report has counted of a split that was never opened.
  *
  * @param bytes
  *   of the columns asked for
  */
final case class CountedSplit(rowGroups: Long = 0, rows: Long = 0, bytes: Long = 0)

/** A split that was never opened, and of which it is not known what stock Spark would have read.
  *
  * @param end
  *   first byte after it
  */
final case class UnopenedSplit(path: String, start: Long, end: Long, counted: CountedSplit = CountedSplit())

/** Counts what would have been read of files that a query did not open, by their footers: for reports that a user asks for. */
object UnopenedFiles {

  /** Splits that a report keeps for this. */
  val MaxSplits = 1000

  private val PatienceMillis = 2000L

  /** @param wanted
    *   whether the scan reads a leaf column
    * @param own
    *   the query's own predicate on a file, if it has one: row groups that it excludes do not count
    * @return
    *   the splits of which that could be read in time, as never opened; instead of what was counted of them
    */
  def count(
      splits: Iterable[UnopenedSplit],
      conf: Configuration,
      wanted: String => Boolean,
      own: FileMetaData => Option[FilterPredicate],
      to: ScanReport
  ): Unit = {
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PatienceMillis)
    splits.groupBy(_.path).iterator.takeWhile(_ => System.nanoTime() < deadline).foreach { case (path, ofFile) =>
      val file = new Path(new URI(path))
      // A file that is gone, or cannot be read, does not count.
      Using(ParquetFileReader.open(HadoopInputFile.fromPath(file, conf))) { reader =>
        val predicate = own(reader.getFileMetaData)
        ofFile.foreach { s =>
          val all = reader.getFooter.getBlocks.asScala.toSeq.filter { b =>
            val middle = LearnedRowGroup.middle(b)
            s.start <= middle && middle < s.end
          }
          val (groups, rows) =
            predicate.fold((all.size.toLong, all.iterator.map(_.getRowCount).sum))(selected(file, conf, s, _))
          to.addRowGroups(groups - s.counted.rowGroups, rows - s.counted.rows)
          // As in files that are opened, those of row groups that the query's own predicates exclude included.
          to.add(ScanCounter.BytesTotal, bytes(all, wanted) - s.counted.bytes)
        }
      }
    }
  }

  /** Row groups and rows that Spark's reader finds with the predicate, which leaves out row groups, and rows by the page index. */
  private def selected(
      file: Path,
      conf: Configuration,
      split: UnopenedSplit,
      predicate: FilterPredicate
  ): (Long, Long) = {
    val options = HadoopReadOptions
      .builder(conf, file)
      .withRange(split.start, split.end)
      .withRecordFilter(FilterCompat.get(predicate))
      .build()
    Using.resource(ParquetFileReader.open(HadoopInputFile.fromPath(file, conf), options)) { reader =>
      (reader.getRowGroups.size.toLong, reader.getFilteredRecordCount)
    }
  }

  private def bytes(groups: Seq[BlockMetaData], wanted: String => Boolean): Long = groups.iterator
    .flatMap(_.getColumns.asScala)
    .filter(c => wanted(ChunkSizes.pathOf(c.getPath.toArray.toSeq)))
    .map(_.getTotalSize)
    .sum
}
