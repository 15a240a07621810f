package org.dynamicfilters.scan.parquet

import java.security.PrivilegedExceptionAction
import java.util.concurrent.{CompletableFuture, ExecutionException, TimeUnit, TimeoutException}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.security.UserGroupInformation
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{FileFormat, HadoopFsRelation, PartitionedFile}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.dynamicfilters.{ParquetReaderAccess, SparkAccess}
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType
import org.dynamicfilters.exchange.Worker
import org.dynamicfilters.filter.PluginFailure
import org.dynamicfilters.scan.{ScanColumn, ScanSpec}
import org.dynamicfilters.scan.statistics.{ChunkSizes, FileIdentity, FileStatistics, LearnedRowGroup, LearnedSplit}
import org.dynamicfilters.state.{Producer, StepTracker}

/** Reads footers on the driver before a scan under a TopK, min or max, so that its first execution reads the best files
  * first, as later ones do; and before a scan under a value of a subquery, which then leaves out files as later ones
  * do. Used by `DynamicFilterScanExec`.
  *
  * Reads only files without learned statistics, and for at most a small share of the scan's estimated time. Spark's own
  * reader opens each file for these columns, so that calendars, field ids and defaults are handled in one
  * place. The results are hints, as all learned statistics are (contract 9).
  */
final class FooterReads(relation: HadoopFsRelation, spec: ScanSpec, statistics: FileStatistics) extends Logging {
  private val columns: IndexedSeq[ScanColumn] =
    (spec.orders.map { case (c, _) => spec.columns(c) } ++ spec.columns.filter(_.ref.producer == Producer.subquery))
      .filterNot(_.isPartitionColumn)
      .distinctBy(c => (c.ordinal, c.name))
      .toIndexedSeq
  private val ordinals = columns.map(_.ordinal).distinct

  /** @param files splits of the scan
    * @param conf used to open files; not changed
    * @param millis longest wait, see [[FooterReads.budget]]
    */
  def learn(files: Seq[PartitionedFile], conf: Configuration, millis: Long): Unit =
    if (isPlain && columns.nonEmpty && millis > 0) {
      val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis)
      // Shuffled, always in the same way: if files are sorted by value, a few random ones include one near the best.
      val unknown = new Random(0)
        .shuffle(files)
        .iterator
        .filterNot(isKnown)
        .distinctBy(_.urlEncodedPath)
        .take(FooterReads.MostFiles)
        .toIndexedSeq
      if (unknown.length > 1)
        try {
          val schema = StructType(ordinals.map(spec.requiredSchema.fields(_)))
          val reader = new DriverReader(relation, schema, Nil, conf)
          // Threads of the pool have no user; files may be readable only by this one.
          val user = UserGroupInformation.getCurrentUser
          def learn(f: PartitionedFile): Unit = if (System.nanoTime() < deadline)
            user.doAs(new PrivilegedExceptionAction[Unit] { override def run(): Unit = one(reader, f) })
          // Not if threads of an earlier call hang in a file system, or settings have changed since the reader was made.
          if (FooterReads.pool.getQueue.isEmpty && spec.decoding.matches(relation.sparkSession.sessionState.conf)) {
            val all = unknown.map(f => CompletableFuture.runAsync(() => learn(f), FooterReads.pool))
            CompletableFuture.allOf(all: _*).get(millis, TimeUnit.MILLISECONDS)
          }
        } catch {
          // The tasks learn the footers that were not reached, and show the failures.
          case _: TimeoutException | _: ExecutionException => ()
          case PluginFailure(e) =>
            logWarning("Dynamic filters: footers cannot be read on the driver, files are read in Spark's order", e)
        }
    }

  /** Whether the format is Spark's own Parquet. Table formats have statistics of their own. */
  private def isPlain: Boolean = relation.fileFormat match {
    case d: DynamicParquetFormat => d.plain.getClass == classOf[ParquetFileFormat]
    case _ => false
  }

  private def isKnown(f: PartitionedFile): Boolean = columns.forall { c =>
    statistics
      .find(f.urlEncodedPath, FileIdentity.listed(f), keys(c), f.start, f.start + f.length)
      .isDefined
  }
  private lazy val keys = columns.map(c => c -> spec.statisticsKey(c)).toMap

  private def one(reader: DriverReader, split: PartitionedFile): Unit = {
    val askedAt = System.currentTimeMillis()
    reader(split.copy(partitionValues = InternalRow.empty, start = 0, length = split.fileSize)) { access =>
      for {
        identity <- access.openedStatus.map(FileIdentity.fromStatus)
        if FileStatistics.isSettled(identity, askedAt) && access.fileReader.getFileMetaData.getFileDecryptor == null
      } {
        val blocks = access.fileReader.getFooter.getBlocks.asScala.toSeq
        val stored = columns.zipWithIndex
          .map { case (c, i) => new FileColumn(access, i, c, ordinals.indexOf(c.ordinal)) }
          .filter(_.isStored)
        stored.foreach { column =>
          val groups = blocks.map(b => LearnedRowGroup.fromBlock(b, column.bounds(b))).toArray
          val sizes = if (column eq stored.head) ChunkSizes.fromBlocks(blocks) else None
          val key = keys(column.filtered)
          statistics.offer(LearnedSplit(split.urlEncodedPath, identity, key, 0, split.fileSize, groups, sizes))
        }
      }
    }
  }
}

/** Opens files on the driver as Spark's own Parquet reader does, without partition columns.
  *
  * @param filters the query's own predicates for the reader
  * @param conf used to open files; not changed
  */
final class DriverReader(relation: HadoopFsRelation, schema: StructType, filters: Seq[Filter], conf: Configuration) {
  private val format = relation.fileFormat match {
    case d: DynamicParquetFormat => d.plain
    case other => other
  }
  private val read = format.buildReaderWithPartitionValues(
    relation.sparkSession,
    relation.dataSchema,
    new StructType(),
    schema,
    filters,
    relation.options +
      (FileFormat.OPTION_RETURNING_BATCH -> format.supportBatch(relation.sparkSession, schema).toString),
    // Making a reader writes the requested columns into the configuration, which the scan's own tasks share.
    new Configuration(conf)
  )

  /** Calls `f` if the vectorized reader reads the file. */
  def apply(file: PartitionedFile)(f: ParquetReaderAccess => Unit): Unit = {
    val rows = read(file)
    try ParquetReaderAccess.of(rows).foreach(f)
    finally Closing(rows)
  }
}

object FooterReads {

  /** Bytes of Parquet that one core reads and decodes in a millisecond, at most. */
  private val BytesInMilli = 100000L

  /** Enough for hundreds of footers on a disk, and for one round of requests to an object store. */
  private val MostMillis = 300L

  private lazy val pool = SparkAccess.threads(Worker.Prefix + "footers", 8)

  /** Time for reading footers before a scan.
    *
    * @param bytes bytes of all splits
    * @param cores number of cores that read the splits
    * @return milliseconds; 0 if no footer is to be read
    */
  def budget(bytes: Long, cores: Int): Long = {
    val millis = (bytes / (BytesInMilli * math.max(cores, 1)) * StepTracker.ShareOfWork).toLong
    // A short scan cannot gain from it.
    if (TimeUnit.MILLISECONDS.toNanos(millis) < StepTracker.Grace) 0 else math.min(millis, MostMillis)
  }

  /** No more footers can be read in the time budget. */
  private val MostFiles = 4096
}
