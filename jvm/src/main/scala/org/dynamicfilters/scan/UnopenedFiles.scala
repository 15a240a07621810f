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

/** The counters that a report has for a split that was never opened.
  *
  * @param bytes
  *   bytes of the requested columns
  */
final case class CountedSplit(rowGroups: Long = 0, rows: Long = 0, bytes: Long = 0)

/** A split that was never opened, and of which it is unknown what stock Spark would have read.
  *
  * @param end
  *   first byte after the split
  */
final case class UnopenedSplit(path: String, start: Long, end: Long, counted: CountedSplit)

/** Reads the footers of files that a query did not open, to count what stock Spark would have read. Only for reports
  * that a user requests.
  */
object UnopenedFiles {

  /** Largest number of such splits in a report. */
  val MaxSplits = 1000

  private val PatienceMillis = 2000L

  /** @param wanted
    *   whether the scan reads a leaf column
    * @param own
    *   the query's own predicate on a file, if any; row groups that it excludes do not count
    * @param to
    *   gets the counts of splits that could be read in time, in place of what it had counted of them
    */
  def count(
      splits: Iterable[UnopenedSplit],
      conf: Configuration,
      wanted: String => Boolean,
      own: FileMetaData => Option[FilterPredicate],
      to: ScanReport
  ): Unit = {
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PatienceMillis)
    splits.iterator.takeWhile(_ => System.nanoTime() < deadline).foreach { s =>
      val file = new Path(new URI(s.path))
      val options = HadoopReadOptions.builder(conf, file).withRange(s.start, s.end)
      def open() = ParquetFileReader.open(HadoopInputFile.fromPath(file, conf), options.build())
      // Ignores files that are missing or cannot be read.
      Using(open()) { reader =>
        val all = reader.getFooter.getBlocks.asScala.toSeq
        // The predicate excludes row groups, and rows by the page index.
        val (groups, rows) = own(reader.getFileMetaData).fold((all.size, all.iterator.map(_.getRowCount).sum)) { p =>
          options.withRecordFilter(FilterCompat.get(p))
          Using.resource(open())(left => (left.getRowGroups.size, left.getFilteredRecordCount))
        }
        to.addRowGroups(groups - s.counted.rowGroups, rows - s.counted.rows)
        // As for opened files, includes row groups that the query's own predicates exclude.
        to.add(ScanCounter.BytesTotal, bytes(all, wanted) - s.counted.bytes)
      }
    }
  }

  private def bytes(groups: Seq[BlockMetaData], wanted: String => Boolean): Long = groups.iterator
    .flatMap(_.getColumns.asScala)
    .filter(c => wanted(ChunkSizes.pathOf(c.getPath.toArray.toSeq)))
    .map(_.getTotalSize)
    .sum
}
