package org.dynamicfilters.scan

import java.io.Closeable
import java.security.PrivilegedExceptionAction
import java.util.concurrent.{ConcurrentLinkedQueue, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.security.UserGroupInformation
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{FileFormat, HadoopFsRelation, PartitionedFile}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.apache.spark.sql.types.StructType
import org.dynamicfilters.filter.OwnFailure
import org.dynamicfilters.state.StepTracker

/** Reads footers on the driver before a scan that looks for the first rows of an order, so that its first run takes the best files
  * first, as later runs do.
  *
  * Only of files of which nothing is known yet, and for a small share of the time that the scan would take at most: footers that
  * are not read by then are learned by the tasks, as ever. A file is opened by Spark's own reader for the columns of the order,
  * so that what a value means (calendars, field ids, defaults) is decided in one place. What is read is a hint like all that was
  * learned (contract 9).
  */
final class FooterReads(relation: HadoopFsRelation, spec: ScanSpec, statistics: FileStatistics) extends Logging {
  private val columns: IndexedSeq[ScanColumn] =
    spec.orders.map { case (c, _) => spec.columns(c) }.filterNot(_.isPartitionColumn).distinctBy(_.ordinal).toIndexedSeq

  /** @param files
    *   splits of the scan
    * @param conf
    *   to open files with; stays as it is
    * @param millis
    *   as long as it waits; see [[FooterReads.budget]]
    */
  def learn(files: Seq[PartitionedFile], conf: Configuration, millis: Long): Unit =
    plainFormat.filter(_ => columns.nonEmpty && millis > 0).foreach { format =>
      val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis)
      val unknown = FooterReads
        .spread(files.toIndexedSeq)
        .filterNot(isKnown)
        .distinctBy(_.urlEncodedPath)
        .take(FooterReads.MostFiles)
        .toIndexedSeq
      if (unknown.length > 1)
        try {
          val read = format.buildReaderWithPartitionValues(
            relation.sparkSession,
            relation.dataSchema,
            new StructType(),
            StructType(columns.map(c => spec.requiredSchema.fields(c.ordinal))),
            Nil,
            relation.options + (FileFormat.OPTION_RETURNING_BATCH -> "true"),
            // To make a reader writes into it: which columns are asked for. The scan's own tasks have the other one.
            new Configuration(conf)
          )
          // The threads are anyone's, the files may be this user's.
          val user = UserGroupInformation.getCurrentUser
          val requests = new ConcurrentLinkedQueue[() => Unit]()
          // Else the settings have changed since the scan's reader was made.
          if (spec.decoding.isThatOf(relation.sparkSession.sessionState.conf)) unknown.foreach { f =>
            requests.add { () =>
              user.doAs(new PrivilegedExceptionAction[Unit] { override def run(): Unit = one(read, f) })
            }
          }
          FileChecks.all(requests, deadline)
        } catch {
          case OwnFailure(e) =>
            logWarning("Dynamic filters: footers cannot be read on the driver, files are read in Spark's order", e)
        }
    }

  /** Table formats have columns of their own, and statistics. */
  private def plainFormat: Option[ParquetFileFormat] = relation.fileFormat match {
    case d: DynamicParquetFormat if d.plain.getClass == classOf[ParquetFileFormat] => Some(d.plain)
    case _ => None
  }

  private def isKnown(f: PartitionedFile): Boolean = columns.forall { c =>
    statistics
      .find(f.urlEncodedPath, FileIdentity.listed(f), keys(c), f.start, f.start + f.length)
      .isDefined
  }
  private lazy val keys = columns.map(c => c -> spec.statisticsKey(c)).toMap

  private def one(read: PartitionedFile => Iterator[InternalRow], split: PartitionedFile): Unit = {
    val askedAt = System.currentTimeMillis()
    val whole = split.copy(partitionValues = InternalRow.empty, start = 0, length = split.fileSize)
    val rows = read(whole)
    try
      for {
        access <- ParquetReaderAccess.of(rows)
        if access.fileReader.getFileMetaData.getFileDecryptor == null
        identity <- access.openedStatus.map(FileIdentity.of)
        if FileStatistics.isSettled(identity, askedAt)
      } {
        val blocks = access.fileReader.getFooter.getBlocks.asScala.toSeq
        val stored = columns.zipWithIndex
          .map { case (c, i) => (c, new FileColumn(access, i, c.domain)) }
          .filter(_._2.isStored)
        stored.foreach { case (c, column) =>
          val groups = blocks.map(b => LearnedRowGroup.of(b, column.bounds(b)))
          val sizes = if (column eq stored.head._2) ChunkSizes.of(blocks) else None
          statistics
            .offer(LearnedSplit(split.urlEncodedPath, identity, keys(c), 0, split.fileSize, groups.toArray, sizes))
        }
      }
    finally
      rows match {
        case c: Closeable => c.close()
        case _ =>
      }
  }
}

object FooterReads {

  /** What one core reads and decodes of Parquet in a millisecond, at most. */
  private val BytesInMilli = 100000L

  /** By then hundreds of footers are read from a disk, and those of an object store have been asked for. */
  private val MostMillis = 300L

  /** How long to read footers before a scan.
    *
    * @param bytes
    *   of all splits
    * @param cores
    *   that read them
    * @return
    *   milliseconds, 0 for not at all
    */
  def budget(bytes: Long, cores: Int): Long = {
    val millis = (bytes / (BytesInMilli * math.max(cores, 1)) * StepTracker.ShareOfWork).toLong
    // A short scan is over before anything could be gained.
    if (TimeUnit.MILLISECONDS.toNanos(millis) < StepTracker.Grace) 0 else math.min(millis, MostMillis)
  }

  /** The files such that the first few of them are far from each other: of files in the order of their values, the best is soon
    * nearly known. 0, 1/2, 1/4, 3/4, 1/8, ... of the way.
    */
  private[scan] def spread[A](files: IndexedSeq[A]): Iterator[A] = {
    val bits = 32 - Integer.numberOfLeadingZeros(math.max(files.length - 1, 1))
    Iterator.range(0, 1 << bits).map(Integer.reverse(_) >>> (32 - bits)).filter(files.indices.contains(_)).map(files)
  }

  /** More are not read in the time that there is. */
  private val MostFiles = 4096
}
