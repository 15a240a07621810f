package org.apache.spark.sql.execution.dynamicfilters

import java.io.Closeable
import java.lang.reflect.{InvocationHandler, Method, Proxy}
import java.time.ZoneId

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.mapred.{FileSplit, JobConf}
import org.apache.hadoop.mapreduce.{JobID, TaskAttemptID, TaskID, TaskType}
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl
import org.apache.parquet.column.page.PageReadStore
import org.apache.parquet.hadoop.{ParquetFileReader, ParquetInputFormat}
import org.apache.parquet.hadoop.metadata.ParquetMetadata
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.io.SeekableInputStream
import org.apache.spark.memory.MemoryMode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.RecordReaderIterator
import org.apache.spark.sql.execution.datasources.parquet.{
  ParquetColumn, ParquetReadSupport, SpecificParquetRecordReaderBase, VectorizedParquetRecordReader
}
import org.apache.spark.sql.types.StructType

/** Reaches into Spark's vectorized Parquet reader, after Spark has set it up: calendar modes, INT96, time zones, field
  * ids and defaults are all Spark's own.
  *
  * The one place with reflection over the reader; checked on 4.1.4, 4.2.0 and 4.3.0. Spark gets the next row
  * group through an interface that is private to its package. With `--jars` a class of ours would be in another runtime
  * package, so a proxy implements the interface.
  */
final class ParquetReaderAccess private (val reader: VectorizedParquetRecordReader) {
  import ParquetReaderAccess._

  private val original = groupReaderField.get(reader)

  /** Spark's own file reader; its row groups are those that the query's static predicates left. */
  val fileReader: ParquetFileReader = {
    if (original == null || !implClass.isInstance(original))
      throw new IllegalStateException(
        s"unknown row group reader ${if (original == null) "null" else original.getClass.getName}"
      )
    implReaderField.get(original).asInstanceOf[ParquetFileReader]
  }

  /** The columns in the order of the requested schema, with the file's columns that Spark matched to them. */
  val columns: Seq[ParquetColumn] = parquetColumnField.get(reader).asInstanceOf[ParquetColumn].children
  def requestedSchema: StructType = sparkRequestedField.get(reader).asInstanceOf[StructType]
  def configuration: Configuration = configurationField.get(reader).asInstanceOf[Configuration]

  /** The file's status when Spark opened it (`ParquetFooterReader` calls `HadoopInputFile.fromPath`).
    *
    * @return None if it is unknown
    */
  def openedStatus: Option[FileStatus] = inputFileField.get(fileReader) match {
    case f: HadoopInputFile => statusField.map(_.get(f).asInstanceOf[FileStatus])
    case _ => None
  }

  /** CORRECTED, LEGACY or EXCEPTION. */
  def datetimeRebaseMode: String = rebaseModeField.get(reader).asInstanceOf[String]

  /** Rows that the reader may return in all; it asks for a row group only while it has returned fewer. */
  def totalRowCount: Long = totalField.getLong(reader)
  private def totalRowCount_=(rows: Long): Unit = totalField.setLong(reader, rows)

  /** Gives the reader the next row group, which must have rows. */
  def give(rows: PageReadStore): Unit = {
    pending = rows
    totalRowCount += rows.getRowCount
  }

  /** Whether the query's static predicates leave out rows by the page index. Before the reader is changed. */
  private val leavesOutRows = totalRowCount < fileReader.getRecordCount

  /** Rows of a row group that the query's static predicates leave by the page index: those that Spark would read.
    *
    * @return Parquet's own form of them; None for all rows, and if they are unknown
    */
  def rowsLeft(group: Int): Option[AnyRef] =
    if (leavesOutRows) rangesMethod.map(_.invoke(fileReader, Int.box(group))) else None

  private var pending: PageReadStore = _

  /** Makes the reader read only the row groups that it is given. Closing still closes the file. */
  def readOnlyGivenRowGroups(): Unit = {
    val file = original.asInstanceOf[Closeable]
    val handler: InvocationHandler = (_: AnyRef, m: Method, _: Array[AnyRef]) =>
      m.getName match {
        case "readNextRowGroup" =>
          val next = pending
          pending = null
          next
        case "close" => file.close(); null
        case "toString" => "dynamic row groups"
        case "hashCode" => Int.box(System.identityHashCode(file))
        case _ => null
      }
    groupReaderField.set(
      reader,
      Proxy.newProxyInstance(groupReaderClass.getClassLoader, Array[Class[_]](groupReaderClass), handler)
    )
    // Last: if the above fails, Spark reads the file as it is.
    totalRowCount = 0
  }

  /** A second reader of the same split that reads only `fields` of the requested schema. It shares the stream, because
    * the file may have been replaced meanwhile. Each reader seeks before it reads. Not for two threads.
    *
    * The reader has the same row groups by index, does not apply the query's static predicates again, and returns
    * batches without partition columns. The caller closes it.
    */
  def openNarrow(fields: StructType, start: Long, length: Long): ParquetReaderAccess = {
    val conf = new JobConf(configuration)
    conf.unset(ParquetInputFormat.FILTER_PREDICATE)
    conf.set(ParquetReadSupport.SPARK_ROW_REQUESTED_SCHEMA, fields.json)
    val path = fileField.get(reader).asInstanceOf[Path]
    val context = new TaskAttemptContextImpl(conf, new TaskAttemptID(new TaskID(new JobID(), TaskType.MAP, 0), 0))
    val input = inputFileField.get(fileReader) match {
      case f: HadoopInputFile => f // saves asking the file system for the file's status again
      case _ => HadoopInputFile.fromPath(path, conf)
    }
    val narrow = new VectorizedParquetRecordReader(
      convertTzField.get(reader).asInstanceOf[ZoneId],
      datetimeRebaseMode,
      rebaseTzField.get(reader).asInstanceOf[String],
      int96ModeField.get(reader).asInstanceOf[String],
      int96TzField.get(reader).asInstanceOf[String],
      memoryModeField.get(reader) == MemoryMode.OFF_HEAP,
      capacityField.getInt(reader)
    )
    val footer = new ParquetMetadata(fileReader.getFileMetaData, fileReader.getRowGroups)
    val stream = new SharedStream(streamField.get(fileReader).asInstanceOf[SeekableInputStream])
    try {
      narrow.initialize(
        new FileSplit(path, start, length, Array.empty[String]),
        context,
        Some(input),
        Some(stream),
        Some(footer)
      )
      narrow.initBatch(new StructType(), InternalRow.empty)
      narrow.enableReturningBatches()
      new ParquetReaderAccess(narrow)
    } catch {
      case e: Throwable =>
        narrow.close()
        throw e
    }
  }
}

object ParquetReaderAccess {
  import SparkAccess.field

  private val base = classOf[SpecificParquetRecordReaderBase[_]]
  private val vectorized = classOf[VectorizedParquetRecordReader]
  private def nested(name: String): Class[_] = Class.forName(s"${base.getName}$$$name", true, base.getClassLoader)
  private val groupReaderClass = nested("ParquetRowGroupReader")
  private val implClass = nested("ParquetRowGroupReaderImpl")
  private val implReaderField = field(implClass, "reader")
  private val groupReaderField = field(base, "reader")
  private val totalField = field(base, "totalRowCount")
  private val parquetColumnField = field(base, "parquetColumn")
  private val sparkRequestedField = field(base, "sparkRequestedSchema")
  private val configurationField = field(base, "configuration")
  private val fileField = field(base, "file")
  private val convertTzField = field(vectorized, "convertTz")
  private val rebaseModeField = field(vectorized, "datetimeRebaseMode")
  private val rebaseTzField = field(vectorized, "datetimeRebaseTz")
  private val int96ModeField = field(vectorized, "int96RebaseMode")
  private val int96TzField = field(vectorized, "int96RebaseTz")
  private val memoryModeField = field(vectorized, "MEMORY_MODE")
  private val capacityField = field(vectorized, "capacity")
  private val streamField = field(classOf[ParquetFileReader], "f")
  private val inputFileField = field(classOf[ParquetFileReader], "file")
  private val statusField = Try(field(classOf[HadoopInputFile], "stat")).toOption
  // Private. Public methods lack the reader's options, and would compute the ranges again.
  private val rangesMethod = Try {
    val m = classOf[ParquetFileReader].getDeclaredMethod("getRowRanges", classOf[Int])
    m.setAccessible(true)
    m
  }.toOption
  private val rowReaderField = field(classOf[RecordReaderIterator[_]], "rowReader")

  // The class that RecordReaderIterator.map returns. Those of other methods have the same fields, and may drop rows.
  private val mapped = new RecordReaderIterator[Int](null).map(identity).getClass
  private val mappedField = Try(field(mapped, "$outer")).toOption

  /** The vectorized reader behind an iterator that Spark's Parquet format returned, or that a table format made of it
    * by `map` (Delta, to add a column that says which rows are deleted).
    *
    * @return None for any other iterator: row-by-row reading, otherwise wrapped iterators of other formats
    */
  def of(iterator: Iterator[_]): Option[ParquetReaderAccess] = iterator match {
    case m if m.getClass == mapped => mappedField.flatMap(f => of(f.get(m).asInstanceOf[Iterator[_]]))
    case r: RecordReaderIterator[_] =>
      rowReaderField.get(r) match {
        case v: VectorizedParquetRecordReader => Some(new ParquetReaderAccess(v))
        case _ => None
      }
    case _ => None
  }
}
