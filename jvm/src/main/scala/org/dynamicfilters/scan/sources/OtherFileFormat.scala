package org.dynamicfilters.scan.sources

import org.apache.hadoop.conf.Configuration
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{FileFormat, PartitionedFile}
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.scan._
import org.dynamicfilters.scan.parquet.CorruptFiles

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
