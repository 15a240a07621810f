package org.dynamicfilters.operators

import scala.reflect.ClassTag

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.{FileScanRDD, PartitionedFile}
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructField
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.SerializableConfiguration
import org.dynamicfilters.filter.{ColumnBounds, PluginFailure}
import org.dynamicfilters.scan._
import org.dynamicfilters.scan.parquet.{DriverReader, FooterReads, UnopenedFiles}
import org.dynamicfilters.scan.statistics.{ChunkSizes, FileStatistics}
import org.dynamicfilters.tables.{DeltaTable, LoggedBounds, TableStatistics}

/** A file scan under dynamic filters.
  *
  * Wraps Spark's scan instead of replacing it: rules that look for a `FileSourceScanExec` still find it, and it
  * prepares its files, partitions and metrics as before. The relation gets another reader ([[DynamicParquetFormat]]),
  * and files with known statistics are read in another order.
  *
  * @param keepsPartitions whether each partition must keep Spark's files in Spark's order
  */
case class DynamicFilterScanExec(
    spec: ScanSpec,
    child: SparkPlan,
    keepsPartitions: Boolean = false,
    values: Seq[Seq[Expression]] = Nil
) extends SpecScan {
  import ScanCounter._
  import SpecScan.Counted

  override protected def counted: Seq[Counted] = Seq(
    Counted("filesPruned", "file splits never opened", SplitsUnopened),
    Counted("rowGroups", "row groups", RowGroups),
    Counted("rowGroupsPruned", "row groups pruned", RowGroupsPruned),
    Counted("lateMaterialized", "row groups read in two passes", LateMaterialized),
    Counted("bytesRead", "bytes read", BytesRead, isSize = true),
    SpecScan.RowsPruned
  ) ++ SpecScan.CountedRows

  private def scan: FileSourceScanExec = child.asInstanceOf[FileSourceScanExec]

  override protected def testsBatches: Boolean = spec.testsRead

  override protected def doExecute(): RDD[InternalRow] = scanned(child.execute())(FileRows.rows(scan, _))
  override protected def doExecuteColumnar(): RDD[ColumnarBatch] =
    scanned(child.executeColumnar())(FileRows.batches(scan, _))

  /** @param plain Spark's own RDD. Made in any case, because making it waits for the scan's subqueries (dynamic
    *   partition pruning)
    */
  private def scanned[T: ClassTag](plain: RDD[T])(asSparkDoes: RDD[T] => RDD[T]): RDD[T] = {
    val accumulator = startRun()
    own(accumulator) match {
      case None => tracked(plain, accumulator)
      case Some(files) => asSparkDoes(tracked(files.asInstanceOf[RDD[T]], accumulator))
    }
  }

  /** The RDD that replaces the one of Spark's scan; None to use Spark's. */
  private def own(accumulator: ScanAccumulator): Option[RDD[InternalRow]] = scan.inputRDD match {
    case files: FileScanRDD =>
      // Bucketed scans keep their partitions.
      val choice = if (scan.bucketedScan || keepsPartitions) None else chosen(files, accumulator)
      choice.orElse(FileRuns.of(files)).map(asSinglePartition(_))
    case _ => None
  }

  /** The scan's splits as chosen on the driver; None keeps Spark's own. */
  private def chosen(files: FileScanRDD, accumulator: ScanAccumulator): Option[RDD[InternalRow]] =
    try {
      val splits = files.filePartitions.flatMap(_.files)
      val complete = pruner
      new FooterReads(scan.relation, spec, FileStatistics.instance).learn(
        splits,
        hadoopConf,
        FooterReads.budget(splits.iterator.map(_.length).sum, sparkContext.defaultParallelism)
      )
      SplitChooser
        .choose(
          files.filePartitions,
          spec,
          complete,
          SplitChooser.FileFacts(
            FileStatistics.instance,
            fromTable(splits),
            ChunkSizes.wanted(scan.requiredSchema)
          ),
          SplitChooser.Tasks(sparkContext.defaultParallelism, conf.filesOpenCostInBytes)
        )
        .map { choice =>
          if (choice.excluded.nonEmpty) countOnDriver(accumulator) { report =>
            choice.excluded.foreach(s => report.addUnopened(s.file, s.facts, spec.isNarrowed))
          }
          def broadcastConf = sparkContext.broadcast(new SerializableConfiguration(hadoopConf))
          new ChosenFileScanRDD(files, spec, choice.splits, if (choice.isLearned) broadcastConf else null)
        }
    } catch {
      case PluginFailure(e) =>
        logWarning("Dynamic filters: files are read in Spark's order, choosing among them failed", e)
        None
    }

  /** Bounds from the table's log. Not read for a single file. */
  private def fromTable(splits: Seq[PartitionedFile]): Int => PartitionedFile => Option[ColumnBounds] = {
    lazy val wanted = splits.iterator.map(_.urlEncodedPath).toSet
    val table = DeltaTable.forIndex(scan.relation.location).filterNot(_.fileCount.contains(1L))
    val fields =
      spec.columns.map(c => table.filterNot(_ => c.isPartitionColumn || c.field.isDefined).flatMap(_.field(c.name)))
    val bounds =
      try
        table.fold(Map.empty[StructField, LoggedBounds]) { t =>
          val domains = fields.zip(spec.columns).collect { case (Some(f), c) => f -> c.domain }.toMap
          val all = TableStatistics.instance
          all.bounds(t.id, domains.keys.toSeq, wanted, t.fileCount)(fs =>
            t.read(fs.map(f => f -> domains(f)), all.mostOfTable)
          )
        }
      catch {
        case PluginFailure(e) =>
          logWarning(
            s"Dynamic filters: the statistics of ${scan.relation.location} cannot be read, files are opened",
            e
          )
          Map.empty[StructField, LoggedBounds]
      }
    val columns = fields.map(_.flatMap(bounds.get).getOrElse(LoggedBounds.none))
    i => file => columns(i).get(file.urlEncodedPath)
  }

  // Reused, because a new one takes 1 ms.
  private def hadoopConf = spec.reader.fold(SparkAccess.hadoopConf(scan.relation))(_.conf)

  override def countUnopened(executionId: Long): Unit = Option(spec.driverRun).foreach { run =>
    val unknown = run.report(executionId).files.unknown.toSet
    if (unknown.nonEmpty) {
      val report = new ScanReport(executionId, "driver")
      val predicates = spec.reader.fold(Seq.empty[Filter])(_.pushedDown)
      UnopenedFiles.count(unknown, new DriverReader(scan.relation, scan.requiredSchema, predicates, hadoopConf), report)
      run.accumulator.add(report)
    }
  }

  override protected def table: ScannedTable =
    RowFilteredScanExec.tableOf(scan).copy(files = FilteredScan.fileCount(scan))

  override def withValues(more: Seq[Expression]): DynamicFilterScanExec = copy(values = values :+ more)
  override protected def withNewChildInternal(newChild: SparkPlan): DynamicFilterScanExec = copy(child = newChild)
}
