package org.dynamicfilters.scan.parquet

import java.io.Closeable

import org.apache.hadoop.conf.Configuration
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.execution.datasources.{FileFormat, PartitionedFile}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.filter.PluginFailure
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.scan._

/** Wraps a Parquet format, Spark's or a table format's own, with a reader that uses dynamic filters.
  *
  * A subclass, because Spark tests `isInstanceOf[ParquetFileFormat]`. A ParquetFileFormat equals every subclass of it,
  * so the relation gets another option too. Otherwise Spark's tree transformations see no change and drop the new
  * format.
  *
  * @param countsRows see [[DynamicFileReader]]; called with `plain`, the session and the required schema when a reader
  *   is made
  */
final class DynamicParquetFormat(
    spec: ScanSpec,
    val plain: ParquetFileFormat,
    countsRows: (ParquetFileFormat, SparkSession, StructType) => Boolean
) extends ParquetFileFormat
    with WrappedFormat {
  override def inner: FileFormat = plain

  // The class file of ParquetFileFormat has these methods of FileFormat, and a class's methods win over a trait's.
  override def supportReadDataType(dataType: DataType): Boolean = plain.supportReadDataType(dataType)
  override def supportFieldName(name: String): Boolean = plain.supportFieldName(name)
  override def allowDuplicatedColumnNames: Boolean = plain.allowDuplicatedColumnNames
  override def createFileMetadataCol(): AttributeReference = plain.createFileMetadataCol()
  override def fileConstantMetadataExtractors: Map[String, PartitionedFile => Any] =
    plain.fileConstantMetadataExtractors

  override def buildReaderWithPartitionValues(
      sparkSession: SparkSession,
      dataSchema: StructType,
      partitionSchema: StructType,
      requiredSchema: StructType,
      filters: Seq[Filter],
      options: Map[String, String],
      hadoopConf: Configuration
  ): PartitionedFile => Iterator[InternalRow] = {
    val reader = plain.buildReaderWithPartitionValues(
      sparkSession,
      dataSchema,
      partitionSchema,
      requiredSchema,
      filters,
      options,
      hadoopConf
    )
    spec.decoding.readerMade(sparkSession.sessionState.conf)
    spec.reader = Some(ReaderSetup(filters, hadoopConf))
    new DynamicFileReader(
      spec,
      reader,
      CorruptFiles.areIgnored(options),
      countsRows(plain, sparkSession, requiredSchema)
    )
  }
}

/** Opens files for a scan through [[DynamicFileIterator]]. Does not open files that a filter excludes.
  *
  * @param skipsCorrupt whether [[CorruptFiles]] are ignored, so that files are read as in stock Spark
  * @param countsRows whether the format identifies rows by counting the rows before them in the file (Delta's deletion
  *   vectors), so that only whole files may be skipped
  */
final class DynamicFileReader(
    spec: ScanSpec,
    plain: PartitionedFile => Iterator[InternalRow],
    skipsCorrupt: Boolean,
    countsRows: Boolean
) extends (PartitionedFile => Iterator[InternalRow])
    with Serializable
    with Logging {
  import ScanCounter._

  override def apply(file: PartitionedFile): Iterator[InternalRow] =
    TaskScan.current(spec.scanId) match {
      case Some(task) if skipsCorrupt =>
        task.report.opened(file.urlEncodedPath)
        fallBack(task, file, Reasons.CorruptFilesIgnored, new SeenRows(plain(file), task))
      case Some(task) => open(new SplitRead(task, file))
      case _ => plain(file)
    }

  private def open(scan: SplitRead): Iterator[InternalRow] = {
    val (task, file) = (scan.task, scan.file)
    if (scan.isExcluded) {
      task.report.addUnopened(file, scan.facts, spec.isNarrowed)
      Iterator.empty
    } else {
      task.report.opened(file.urlEncodedPath)
      val rows = plain(file)
      def readAll(a: ParquetReaderAccess, reason: Reason) = {
        guarded(task, "counting rows")(countAll(task, a))
        fallBack(task, file, reason, rows)
      }
      val hooked = guarded(task, "setting up a reader") {
        ParquetReaderAccess.of(rows) match {
          case None =>
            val reason = if (countsRows) Reasons.CountsRows else Reasons.RowReader
            fallBack(task, file, reason, new SeenRows(rows, task))
          case Some(a) if countsRows => readAll(a, Reasons.CountsRows)
          // Encrypted footers may lack statistics, so encrypted files are read as in stock Spark.
          case Some(a) if isEncrypted(a) => readAll(a, Reasons.Encrypted)
          case Some(a) => new DynamicFileIterator(rows, a, scan).asInstanceOf[Iterator[InternalRow]]
        }
      }
      hooked.getOrElse(fallBack(task, file, Reasons.NoReader, rows))
    }
  }

  /** Counts a split that is read in full. */
  private def countAll(task: TaskScan, a: ParquetReaderAccess): Unit = {
    val (groups, bytes) = (a.fileReader.getRowGroups.size.toLong, new ColumnBytes(a).splitBytes)
    Seq(
      RowGroups -> groups,
      Rows -> a.totalRowCount,
      RowsOutput -> a.totalRowCount,
      BytesTotal -> bytes,
      BytesRead -> bytes
    ).foreach { case (counter, n) => task.report.add(counter, n) }
  }

  private def isEncrypted(a: ParquetReaderAccess): Boolean = {
    val file = a.fileReader.getFileMetaData
    file.getFileDecryptor != null && file.getEncryptionType.name != "UNENCRYPTED"
  }

  private def fallBack(task: TaskScan, file: PartitionedFile, reason: Reason, rows: Iterator[InternalRow]) = {
    task.report.add(Fallbacks, 1)
    task.report.addReason(reason)
    task.report.files.read += PathHash(file.urlEncodedPath)
    rows
  }

  private def guarded[A](task: TaskScan, what: String)(body: => A): Option[A] =
    try Some(body)
    catch {
      case PluginFailure(e) =>
        task.report.addReason(Reasons.Failed(e, what))
        logWarning(s"Dynamic filters: failure while $what; the file is read without filters", e)
        None
    }
}

/** Counts the rows of a reader that does not tell their number.
  *
  * @param rows `InternalRow`s, or `ColumnarBatch`es under that static type. So it is not cast to this type here
  */
private final class SeenRows[T](rows: Iterator[T], task: TaskScan) extends Iterator[T] with Closeable {
  import ScanCounter._

  override def hasNext: Boolean = rows.hasNext

  // Counted at once, because counting at the task's end would keep all readers alive until then.
  override def next(): T = {
    val row = rows.next()
    val n = row match {
      case b: ColumnarBatch => b.numRows.toLong
      case _ => 1L
    }
    task.report.add(Rows, n)
    task.report.add(RowsOutput, n)
    row
  }

  override def close(): Unit = Closing(rows)
}

/** Closes an object, if it can be closed. */
private[scan] object Closing {
  def apply(a: Any): Unit = a match {
    case c: AutoCloseable => c.close()
    case _ =>
  }
}

/** Wraps Spark's iterator over a split, and gives its reader the row groups chosen by [[DynamicRowGroups]].
  *
  * Returns batches or rows as Spark's iterator does. The next row group is chosen only after all earlier rows were
  * returned, so with the newest filters.
  */
final class DynamicFileIterator(
    rows: Iterator[InternalRow],
    access: ParquetReaderAccess,
    scan: SplitRead
) extends Iterator[AnyRef]
    with Closeable {
  private val inner = rows.asInstanceOf[Iterator[AnyRef]]
  private val groups = new DynamicRowGroups(scan, access)
  private var admitted = 0L
  private var returned = 0L
  private var ended = false
  private var closed = false

  access.readOnlyGivenRowGroups()

  override def hasNext: Boolean = {
    if (!ended && returned >= admitted) {
      val store = groups.next()
      if (store == null) ended = true
      else {
        admitted += store.getRowCount
        access.give(store)
      }
    }
    inner.hasNext
  }

  override def next(): AnyRef =
    inner.next() match {
      case batch: ColumnarBatch =>
        returned += batch.numRows
        groups.tested(batch)
      case row =>
        returned += 1
        row
    }

  override def close(): Unit =
    if (!closed) {
      closed = true
      if (admitted > 0) scan.task.report.files.read += PathHash(scan.file.urlEncodedPath)
      try groups.close()
      finally Closing(inner)
    }
}

/** If corrupt files are ignored, stock Spark drops all rows of a file after the first unreadable one. Skipping data
  * could hide that row and so add rows, so nothing inside files is skipped then.
  *
  * Checked when a scan is planned and again when its reader is made, because the setting may have changed in between.
  */
object CorruptFiles {

  /** @param options options of the relation, which override the session's settings */
  def areIgnored(options: Map[String, String]): Boolean = new FileSourceOptions(options).ignoreCorruptFiles
}
