package org.dynamicfilters.scan.sources

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
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.scan.parquet.CorruptFiles
import org.dynamicfilters.scan.{PathHash, ScanSpec, SplitRead, TaskScan}

/** A format that reads files in its own way, and leaves everything else to another format. */
trait WrappedFormat extends FileFormat {
  def inner: FileFormat

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
}

/** Wraps a format of Spark other than Parquet. Files are not opened if a filter excludes their partition values. ORC's
  * reader also gets the filters that are complete when the scan starts ([[OrcPredicates]]).
  */
final class OtherFileFormat(override val inner: FileFormat, spec: ScanSpec) extends WrappedFormat with Serializable {
  override def buildReaderWithPartitionValues(
      s: SparkSession,
      dataSchema: StructType,
      partitionSchema: StructType,
      requiredSchema: StructType,
      filters: Seq[Filter],
      options: Map[String, String],
      hadoopConf: Configuration
  ): PartitionedFile => Iterator[InternalRow] = {
    // Making a reader changes the configuration.
    def reader(filters: Seq[Filter]) = inner.buildReaderWithPartitionValues(
      s,
      dataSchema,
      partitionSchema,
      requiredSchema,
      filters,
      options,
      new Configuration(hadoopConf)
    )
    // With predicates ORC may skip a stripe that cannot be read.
    val usesPredicates = OrcPredicates.usesPredicates(inner, hadoopConf) && !CorruptFiles.areIgnored(options)
    val more = if (usesPredicates) OrcPredicates.complete(spec) else Nil
    new OtherFileReader(spec, reader(filters), if (more.isEmpty) null else reader(filters ++ more))
  }

  // The scan's node compares the filters.
  override def equals(other: Any): Boolean = other match {
    case that: OtherFileFormat => that.inner == inner
    case _ => false
  }
  override def hashCode: Int = inner.hashCode
}

/** Opens files for a scan.
  *
  * @param filtered the reader with the filters as predicates; null if there is none
  */
private final class OtherFileReader(
    spec: ScanSpec,
    plain: PartitionedFile => Iterator[InternalRow],
    filtered: PartitionedFile => Iterator[InternalRow]
) extends (PartitionedFile => Iterator[InternalRow])
    with Serializable
    with Logging {

  override def apply(file: PartitionedFile): Iterator[InternalRow] =
    TaskScan.current(spec.scanId).fold(read(file, None)) { task =>
      if (new SplitRead(task, file).isExcluded) {
        task.report.leftUnopened(PathHash(file.urlEncodedPath))
        Iterator.empty
      } else {
        task.report.opened(file.urlEncodedPath)
        task.report.files.read += PathHash(file.urlEncodedPath)
        read(file, Some(task))
      }
    }

  /** Opens a file with the filters. Falls back to the plain reader on failures that every attempt has in the same way,
    * for example because the file's column has another type.
    */
  private def read(file: PartitionedFile, task: Option[TaskScan]): Iterator[InternalRow] =
    if (filtered == null) plain(file)
    else
      try filtered(file)
      catch {
        case e @ (_: IllegalArgumentException | _: ClassCastException | _: UnsupportedOperationException) =>
          task.foreach(_.report.addReason(Reasons.Failed(e, "a file was opened with filters")))
          logWarning("Dynamic filters: a file cannot be opened with filters; it is read without them", e)
          plain(file)
      }
}
