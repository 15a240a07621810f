package org.dynamicfilters.operators

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.columnar.CachedBatch
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.TableCacheQueryStageExec
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.scan._
import org.dynamicfilters.scan.sources.CachedBatches

/** A scan of cached data under dynamic filters. Skips batches by their statistics, and drops single rows below an exchange.
  *
  * Filters only what comes out of the cache. The plan that fills the cache, possibly in the same task, is not filtered.
  *
  * @param spec its ordinals are positions in the child's output; there are no partition columns
  * @param child Spark's scan. Adaptive execution wraps it in a stage, which fills the cache
  */
case class CachedScanExec(
    spec: ScanSpec,
    child: SparkPlan,
    values: Seq[Seq[Expression]] = Nil
) extends SpecScan {
  // If rows are not tested, the batches are counted as a whole.
  override protected def countsRows: Boolean = spec.testsBatches
  override protected def counted: Seq[SpecScan.Counted] = Seq(
    SpecScan.Counted("batches", "cached batches", ScanCounter.RowGroups),
    SpecScan.Counted("batchesPruned", "cached batches pruned", ScanCounter.RowGroupsPruned),
    SpecScan.RowsPruned
  ) ++ SpecScan.CountedRows
  override protected def table: ScannedTable = {
    val name = CachedScanExec.scanOf(child).flatMap(_.relation.cacheBuilder.tableName)
    ScannedTable(name.getOrElse("cached data"), "cache")
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = CachedScanExec.scanOf(child) match {
      case None => child.execute()
      case Some(scan) =>
        val cache = scan.relation.cacheBuilder
        cache.serializer.convertCachedBatchToInternalRow(batches(scan), scan.relation.output, scan.attributes, conf)
    }
    tracked(rows, startRun())
  }

  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = {
    val rows = CachedScanExec.scanOf(child) match {
      case None => child.executeColumnar()
      case Some(scan) =>
        val cache = scan.relation.cacheBuilder
        cache.serializer.convertCachedBatchToColumnarBatch(batches(scan), scan.relation.output, scan.attributes, conf)
    }
    tracked(rows, startRun())
  }

  /** Batches that pass the query's own predicates, as in Spark's scan, and then the filters. */
  private def batches(scan: InMemoryTableScanExec): RDD[CachedBatch] = {
    val relation = scan.relation
    val cached = relation.cacheBuilder.cachedColumnBuffers
    val byPredicates =
      if (conf.inMemoryPartitionPruning)
        new MappedRDD(cached, relation.cacheBuilder.serializer.buildFilter(scan.predicates, relation.output))
      else cached
    def position(at: Int) = relation.output.indexWhere(_.exprId == scan.attributes(at).exprId)
    val choice = new CachedBatches(
      spec,
      spec.columns.map(c => position(c.ordinal)),
      scan.attributes.indices.map(position)
    )
    // This operator runs in place of the wrapped one, and counts its metrics.
    val rows = scan.longMetric("numOutputRows")
    new MappedRDD(
      byPredicates,
      (_, it: Iterator[CachedBatch]) =>
        choice(it).map { b =>
          rows += b.numRows
          b
        }
    )
  }

  override def withValues(more: Seq[Expression]): CachedScanExec = copy(values = values :+ more)
  override protected def withNewChildInternal(newChild: SparkPlan): CachedScanExec = copy(child = newChild)
}

object CachedScanExec {

  /** The scan of cached data that this operator is, or wraps as a query stage or with filters. */
  def scanOf(plan: SparkPlan): Option[InMemoryTableScanExec] = plan match {
    case i: InMemoryTableScanExec => Some(i)
    case c: CachedScanExec => scanOf(c.child)
    case q: TableCacheQueryStageExec => scanOf(q.plan)
    case _ => None
  }
}
