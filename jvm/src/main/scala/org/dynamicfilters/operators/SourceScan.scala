package org.dynamicfilters.operators

import java.util.IdentityHashMap

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.plans.physical.{SinglePartition, UnknownPartitioning}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory, Scan, SupportsRuntimeV2Filtering}
import org.apache.spark.sql.execution.{SparkPlan, SubqueryBroadcastExec}
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.types.StructField
import org.dynamicfilters.filter.{PluginFailure, ValueFilter}
import org.dynamicfilters.scan._
import org.dynamicfilters.scan.sources.{
  ChosenScan, PartsReaderFactory, SourceChooser, SourceSplit, SplitBounds, V2Predicates
}

/** A DataSource V2 scan in one run of a plan. On the driver. The source gets the complete filters before it plans its
  * splits, as in Spark's dynamic partition pruning. Splits that cannot match are then left out.
  *
  * @param pruner has the filters that are complete
  */
private[operators] final class SourceScan(
    scan: BatchScanExec,
    spec: ScanSpec,
    pruner: Pruner,
    keepsPartitions: Boolean
) extends Logging {

  /** Number of splits that no task reads. Known once `filtered` is executed. */
  @volatile var left: Int = 0

  /** Number of files of all splits, left-out ones included. Known once `filtered` is executed. */
  @volatile var files: Long = 0

  // Includes the splits that the source itself leaves out. None if unknown, or if the source leaves out none.
  private var allFiles: Option[Long] = None

  /** A copy of the scan that plans its splits with the filters. The original may have planned its splits already, when
    * Spark asked for its partitioning.
    */
  lazy val filtered: SparkPlan =
    try {
      // Before the source gets the filters: it still has all its files.
      val bounds = if (SourceScan.mayChoose(scan)) SplitBounds.forScan(scan.scan, spec) else None
      // For all files, as in Spark's scan. Iceberg reads a table of Parquet and ORC files in rows. After filtering there may be
      // Parquet files only, for which its factory would make batches.
      val factory = scan.readerFactory
      val predicates = SourceScan.runtimeFilterColumns(scan).flatMap(predicatesOf)
      if (predicates.nonEmpty) {
        source.filter(predicates.toArray)
        // Spark's own pruning happens later, so the splits that it leaves out are not known here.
        if (scan.runtimeFilters.isEmpty) allFiles = bounds.map(_.files)
      }
      if (bounds.isEmpty && predicates.isEmpty) scan else withScan(chosen(bounds, factory))
    } catch {
      case PluginFailure(e) =>
        logWarning("Dynamic filters: the source did not take its filters, it is read without them", e)
        scan
    }

  private def predicatesOf(column: String): Seq[Predicate] = for {
    (c, i) <- spec.columns.zipWithIndex
    if scan.conf.resolver(c.name, column) && pruner.filters(i) != ValueFilter.All
    inSparksOrder = SplitBounds.inSparksOrder(scan.scan, StructField(c.name, c.domain.dataType))
    predicate <- V2Predicates.of(c.name, pruner.filters(i), inSparksOrder, SourceScan.MostValues)
  } yield predicate

  private def chosen(bounds: Option[SplitBounds], ofSource: PartitionReaderFactory): Scan = {
    val columnar = scan.supportsColumnar
    val factory = if (bounds.isEmpty) ofSource else new PartsReaderFactory(ofSource, spec.scanId, columnar)
    def splits(planned: Seq[InputPartition]) = bounds.fold(planned)(choose(_, planned))
    new ChosenScan(source, columnar, splits, factory)
  }

  // Only for scans with bounds (Iceberg) or runtime filters, which have this trait.
  private def source: SupportsRuntimeV2Filtering = scan.scan.asInstanceOf[SupportsRuntimeV2Filtering]

  private def choose(bounds: SplitBounds, splits: Seq[InputPartition]): Seq[SourceSplit] = {
    val parts = splits.map(bounds.parts)
    files = allFiles.getOrElse(parts.flatten.map(_.file).filter(_ != 0).distinct.size.toLong)
    val tasks = SplitChooser.Tasks(scan.session.sparkContext.defaultParallelism, scan.conf.filesOpenCostInBytes)
    val choice = SourceChooser.choose(parts, spec, pruner, keepsPartitions, tasks)
    left = choice.excluded
    // The plan relies on a single partition.
    if (scan.outputPartitioning == SinglePartition) Seq(new SourceSplit(choice.splits.flatMap(_.parts).toIndexedSeq))
    else choice.splits
  }

  private def withScan(other: Scan): SparkPlan = Tagged(WithArguments[SparkPlan](scan) { case _: Scan => other }, scan)
}

object SourceScan {

  /** A larger set of values is given to the source as its range. */
  private val MostValues = 10000L

  private val SharedTag = TreeNodeTag[Unit]("dynamicfilters.sharedSource")

  /** Marks the scans of a plan, its stages and its subqueries that share their source's scan object: a runtime filter
    * of one of them would filter the others too. Subqueries of adaptive execution are not visited, because they have
    * plans of their own.
    *
    * Spark optimizes a subquery (IN, EXISTS) before it pushes the subquery's condition through a union. Then each
    * branch joins with the same scan object. Compared by identity, because sources define equality of scans freely.
    */
  def markShared(plan: SparkPlan): Unit = if (plan.exists(_.isInstanceOf[SpecScan])) {
    val seen = new IdentityHashMap[Scan, BatchScanExec]
    def visit(p: SparkPlan): Unit = {
      p match {
        case b: BatchScanExec =>
          val other = seen.put(b.scan, b)
          if (other != null && (other ne b)) Seq(b, other).foreach(_.setTagValue(SharedTag, ()))
        case q: QueryStageExec => visit(q.plan)
        case _ =>
      }
      // A subquery that prunes partitions is a join's build side planned again. It becomes the exchange of that build side.
      (p.children ++ p.subqueries.filterNot(_.isInstanceOf[SubqueryBroadcastExec])).foreach(visit)
    }
    visit(plan)
  }

  /** The columns on which the source accepts runtime filters. */
  def runtimeFilterColumns(scan: BatchScanExec): Seq[String] = scan.scan match {
    // MERGE, UPDATE and DELETE check for conflicts in the files that their scan has planned.
    case s: SupportsRuntimeV2Filtering
        if mayChoose(scan) && !SparkAccess.isChanged(scan.table) && scan.getTagValue(SharedTag).isEmpty =>
      s.filterAttributes().map(_.fieldNames().mkString(".")).toSeq.distinct
    case _ => Nil
  }

  /** Whether splits may be left out or regrouped: no operator relies on the rows of a partition. */
  def mayChoose(scan: BatchScanExec): Boolean = scan.outputPartitioning match {
    case SinglePartition | _: UnknownPartitioning => scan.outputOrdering.isEmpty
    case _ => false
  }
}
