package org.dynamicfilters.scan

import java.net.URI
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.dynamicfilters.filter.ColumnBounds

/** A split that was never opened, of which nothing is known.
  *
  * @param end
  *   first byte after it
  */
final case class UnopenedSplit(path: String, start: Long, end: Long)

/** Counts what would have been read of files that a query did not open, by their footers: for reports that a user asks for. */
object UnopenedFiles {

  /** Splits that a report keeps for this. */
  val MaxSplits = 1000

  private val PatienceMillis = 2000L

  /** @param wanted
    *   whether the scan reads a leaf column
    * @return
    *   the splits of which that could be read in time, as never opened
    */
  def count(splits: Iterable[UnopenedSplit], conf: Configuration, wanted: String => Boolean, to: ScanReport): Unit = {
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PatienceMillis)
    splits.groupBy(_.path).iterator.takeWhile(_ => System.nanoTime() < deadline).foreach { case (path, ofFile) =>
      // A file that is gone, or cannot be read, does not count.
      Using(ParquetFileReader.open(HadoopInputFile.fromPath(new Path(new URI(path)), conf))) { reader =>
        val blocks = reader.getFooter.getBlocks.asScala
        ofFile.foreach { s =>
          val groups = blocks.filter { b =>
            val middle = LearnedRowGroup.middle(b)
            s.start <= middle && middle < s.end
          }
          to.addRowGroups(groups.map(LearnedRowGroup.of(_, ColumnBounds.unknown)).toArray)
          to.add(ScanCounter.BytesTotal, groups.iterator.map(bytes(_, wanted)).sum)
        }
      }
    }
  }

  private def bytes(b: BlockMetaData, wanted: String => Boolean): Long = b.getColumns.asScala.iterator
    .filter(c => wanted(ChunkSizes.pathOf(c.getPath.toArray.toSeq)))
    .map(_.getTotalSize)
    .sum
}
