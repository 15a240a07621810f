package org.dynamicfilters.scan

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.mapreduce.Job
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources.{FileFormat, OutputWriterFactory, PartitionedFile}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructField, StructType}

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

object WrappedFormat {

  /** The format of a scan's files, as Spark planned it. */
  def unwrapped(scan: FileSourceScanExec): FileFormat = scan.relation.fileFormat match {
    case wrapped: WrappedFormat => wrapped.inner
    case other => other
  }
}
