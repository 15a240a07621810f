package org.dynamicfilters.scan.parquet

import java.util.concurrent.TimeUnit

import scala.util.Try

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.dynamicfilters.scan.{ScanCounter, ScanReport}

/** The counters that a report has for a split that was never opened. */
final case class CountedSplit(rowGroups: Long = 0, rows: Long = 0, bytes: Long = 0)

/** A split that was never opened, and of which it is unknown what stock Spark would have read.
  *
  * @param end first byte after the split
  */
final case class UnopenedSplit(path: String, start: Long, end: Long, counted: CountedSplit)

/** Reads the footers of files that a query did not open, to count what stock Spark would have read, for reports. */
object UnopenedFiles {

  /** Largest number of such splits in a report. */
  val MaxSplits = 1000

  private val PatienceMillis = 2000L

  /** @param newReader reads the columns of the scan, with the query's own predicates
    * @param to gets the counts of splits that could be read in time, in place of what it had counted of them
    */
  def count(splits: Iterable[UnopenedSplit], newReader: => DriverReader, to: ScanReport): Unit = {
    lazy val reader = newReader
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PatienceMillis)
    splits.iterator.takeWhile(_ => System.nanoTime() < deadline).foreach { s =>
      val file = PartitionedFile(InternalRow.empty, SparkPath.fromUrlString(s.path), s.start, s.end - s.start)
      // Ignores files that are missing or cannot be read.
      Try(reader(file) { access =>
        // Without what the predicates exclude: row groups, and rows by the page index.
        val groups = access.fileReader.getRowGroups.size
        to.addRowGroups(groups - s.counted.rowGroups, access.totalRowCount - s.counted.rows)
        // As for opened files, includes row groups that the query's own predicates exclude.
        to.add(ScanCounter.BytesTotal, new ColumnBytes(access).splitBytes - s.counted.bytes)
      })
    }
  }
}
