package org.dynamicfilters.scan

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.mapreduce.Job
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.execution.datasources.{FileFormat, OutputWriterFactory, PartitionedFile}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.{DataType, StructField, StructType}
import org.dynamicfilters.filter.OwnFailure

/** A format of Spark's other than Parquet, whose files are not opened where a filter excludes their partition, and whose reader
  * is told the filters that are complete before the scan starts, if it has statistics of its own ([[OrcPredicates]]).
  */
final class OtherFileFormat(val inner: FileFormat, spec: ScanSpec) extends FileFormat with Serializable {
  override def inferSchema(s: SparkSession, options: Map[String, String], files: Seq[FileStatus]): Option[StructType] =
    inner.inferSchema(s, options, files)
  override def prepareWrite(
      s: SparkSession,
      job: Job,
      options: Map[String, String],
      schema: StructType
  ): OutputWriterFactory = inner.prepareWrite(s, job, options, schema)
  override def supportBatch(s: SparkSession, schema: StructType): Boolean = inner.supportBatch(s, schema)
  override def vectorTypes(required: StructType, partition: StructType, conf: SQLConf): Option[Seq[String]] =
    inner.vectorTypes(required, partition, conf)
  override def isSplitable(s: SparkSession, options: Map[String, String], path: Path): Boolean =
    inner.isSplitable(s, options, path)
  override def supportDataType(dataType: DataType): Boolean = inner.supportDataType(dataType)
  override def supportReadDataType(dataType: DataType): Boolean = inner.supportReadDataType(dataType)
  override def supportFieldName(name: String): Boolean = inner.supportFieldName(name)
  override def allowDuplicatedColumnNames: Boolean = inner.allowDuplicatedColumnNames
  override def createFileMetadataCol(): AttributeReference = inner.createFileMetadataCol()
  override def metadataSchemaFields: Seq[StructField] = inner.metadataSchemaFields
  override def fileConstantMetadataExtractors: Map[String, PartitionedFile => Any] =
    inner.fileConstantMetadataExtractors
  override def toString: String = inner.toString

  override def buildReaderWithPartitionValues(
      s: SparkSession,
      dataSchema: StructType,
      partitionSchema: StructType,
      requiredSchema: StructType,
      filters: Seq[Filter],
      options: Map[String, String],
      hadoopConf: Configuration
  ): PartitionedFile => Iterator[InternalRow] = {
    // The readers change the configuration that they are given.
    def reader(filters: Seq[Filter]) = inner.buildReaderWithPartitionValues(
      s,
      dataSchema,
      partitionSchema,
      requiredSchema,
      filters,
      options,
      new Configuration(hadoopConf)
    )
    // With predicates ORC may leave out a stripe that cannot be read.
    val mayTell = OrcPredicates.isTold(inner, hadoopConf) && !CorruptFiles.areIgnored(options)
    val more = if (mayTell) OrcPredicates.complete(spec) else Nil
    new OtherFileReader(spec, reader(filters), if (more.isEmpty) null else reader(filters ++ more))
  }

  // Which filters it has, the scan's node says.
  override def equals(other: Any): Boolean = other match {
    case that: OtherFileFormat => that.inner == inner
    case _ => false
  }
  override def hashCode: Int = inner.hashCode
}

/** Opens files for a scan.
  *
  * @param told
  *   the reader that knows the filters, null if none does
  */
private final class OtherFileReader(
    spec: ScanSpec,
    plain: PartitionedFile => Iterator[InternalRow],
    told: PartitionedFile => Iterator[InternalRow]
) extends (PartitionedFile => Iterator[InternalRow])
    with Serializable
    with Logging {

  override def apply(file: PartitionedFile): Iterator[InternalRow] =
    TaskScan.current(spec.scanId).fold(read(file, None)) { task =>
      task.reachesFile()
      // Of what is in the file nothing is seen here.
      task.readsWholeFile()
      if (excludes(task, file)) {
        task.report.leftUnopened(PathHash(file.urlEncodedPath))
        Iterator.empty
      } else {
        task.report.opened(file.urlEncodedPath)
        task.report.filesRead += PathHash(file.urlEncodedPath)
        read(file, Some(task))
      }
    }

  private def excludes(task: TaskScan, file: PartitionedFile): Boolean =
    try task.excludes(file)
    catch {
      case OwnFailure(e) =>
        task.report.addReason(s"${e.getClass.getSimpleName} while checking a file")
        logWarning("Dynamic filters: failure while checking a file; it is read", e)
        false
    }

  /** What a reader makes of a predicate on a column that the file has in another type is its own affair. Only what fails in the
    * same way in every attempt leads to the plain reader.
    */
  private def read(file: PartitionedFile, task: Option[TaskScan]): Iterator[InternalRow] =
    if (told == null) plain(file)
    else
      try told(file)
      catch {
        case e @ (_: IllegalArgumentException | _: ClassCastException | _: UnsupportedOperationException) =>
          task.foreach(_.report.addReason(s"${e.getClass.getSimpleName} while a file was opened with filters"))
          logWarning("Dynamic filters: a file cannot be opened with filters; it is read without them", e)
          plain(file)
      }
}
