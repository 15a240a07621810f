package org.dynamicfilters.operators

import java.util.Locale

import scala.reflect.ClassTag

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.{FileSourceScanExec, RowDataSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.scan._
import org.dynamicfilters.scan.sources.OtherFileFormat
import org.dynamicfilters.tables.FormatName

/** A scan under dynamic filters whose reader does not know them. Below an exchange its rows are tested after they were read, because
  * dropping a row is cheaper than shuffling it. A DataSource V2 scan also gets the filters that it accepts, and reads only the
  * splits that can match ([[SourceScan]]).
  *
  * @param spec for file scans as usual; for other scans, ordinals are positions in the child's output, and there are no
  *   partition columns
  * @param keepsPartitions whether each partition must keep Spark's splits in Spark's order
  */
case class RowFilteredScanExec(
    spec: ScanSpec,
    child: SparkPlan,
    keepsPartitions: Boolean = false,
    values: Seq[Seq[Expression]] = Nil
) extends SpecScan {
  import ScanCounter._

  override protected def countsRows: Boolean = true
  override protected def counted: Seq[SpecScan.Counted] =
    SpecScan.Counted("splitsPruned", "splits never opened", SplitsUnopened) +: SpecScan.CountedRows
  override protected def table: ScannedTable = {
    val files = child match {
      case f: FileSourceScanExec if f.relation.fileFormat.isInstanceOf[OtherFileFormat] => FilteredScan.fileCount(f)
      case _ => source.fold(0L)(_.files)
    }
    RowFilteredScanExec.tableOf(child).copy(files = files)
  }

  @transient private lazy val source: Option[SourceScan] = child match {
    case b: BatchScanExec => Some(new SourceScan(b, spec, pruner, keepsPartitions || outputOrdering.nonEmpty))
    case _ => None
  }

  override protected def doExecute(): RDD[InternalRow] = scanned { p =>
    val rows = p.execute()
    inRuns.fold(rows) { case (scan, files) => FileRows.rows(scan, files) }
  }

  override protected def doExecuteColumnar(): RDD[ColumnarBatch] =
    // Some sources decide by partition whether they are columnar. A source without partitions is not.
    scanned { p =>
      val batches = if (p.supportsColumnar) p.executeColumnar() else sparkContext.emptyRDD[ColumnarBatch]
      inRuns.fold(batches) { case (scan, files) => FileRows.batches(scan, files.asInstanceOf[RDD[ColumnarBatch]]) }
    }

  // For file scans, an RDD that can skip runs of consecutive files in a partition.
  private def inRuns: Option[(FileSourceScanExec, RDD[InternalRow])] = child match {
    case f: FileSourceScanExec => FileRuns.of(f.inputRDD).map(f -> asSinglePartition(_))
    case _ => None
  }

  private def scanned[T: ClassTag](execute: SparkPlan => RDD[T]): RDD[T] = {
    // Before a reader is made, which may get the filters.
    startSubqueries()
    val rows = execute(source.fold(child)(_.filtered))
    val accumulator = startRun()
    for (left <- source.map(_.left.toLong) if left > 0) countOnDriver(accumulator) { report =>
      report.add(Splits, left)
      report.add(SplitsUnopened, left)
    }
    tracked(asSinglePartition(rows), accumulator)
  }

  override def withValues(more: Seq[Expression]): RowFilteredScanExec = copy(values = values :+ more)
  override protected def withNewChildInternal(newChild: SparkPlan): RowFilteredScanExec = copy(child = newChild)
}

object RowFilteredScanExec {

  /** The table of a scan, without numbers of files. */
  def tableOf(scan: SparkPlan): ScannedTable = scan match {
    case f: FileSourceScanExec =>
      def path = f.relation.location.rootPaths.headOption.fold("")(_.toString)
      ScannedTable(f.tableIdentifier.fold(path)(_.unquotedString), FormatName(WrappedFormat.unwrapped(f)))
    case r: RowDataSourceScanExec =>
      ScannedTable(r.tableIdentifier.fold(r.relation.toString)(_.unquotedString), FormatName.ofRelation(r.relation))
    case b: BatchScanExec => ScannedTable(b.table.name(), FormatName.ofTable(b.table))
    // At execution it is inside generated code.
    case other =>
      def node = other.nodeName.trim
      other.children.headOption.fold(ScannedTable(node, node.toLowerCase(Locale.ROOT)))(tableOf)
  }
}
