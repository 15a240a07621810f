package org.dynamicfilters.plan

import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.datasources.{CatalogFileIndex, FileIndex, PartitioningAwareFileIndex}
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, FileScan}
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.dynamicfilters.filter.Traverse
import org.dynamicfilters.operators.FilteredScan
import org.dynamicfilters.tables.DeltaTable

/** What is known of the contents of a plan's tables, without a look at them: something that changes when they do. */
private[plan] object TableContents {

  /** Tables of subqueries count, and those that filters in its scans come from: these may belong to joins elsewhere.
    *
    * @return
    *   None if one of the tables may change without notice
    */
  def of(plan: SparkPlan): Option[Seq[Any]] = contents(plan, everything = true)

  /** The same of those tables of which it is known, without those that filters in scans come from. Of other sources, which table
    * it is that a query has resolved: a query and its subqueries have the same one, a cached plan has its own.
    */
  def known(plan: SparkPlan): Seq[Any] = contents(plan, everything = false).getOrElse(Nil)

  /** @param everything
    *   whether filters count, and what is not known of a table is not known of the plan
    */
  private def contents(plan: SparkPlan, everything: Boolean): Option[Seq[Any]] = {
    def unknown(instead: Any*): Option[Seq[Any]] = Option.unless(everything)(instead)
    def of(plan: SparkPlan): Option[Seq[Any]] = plan match {
      case q: QueryStageExec => of(q.plan)
      case r: ReusedExchangeExec => of(r.child)
      case r: ReusedSubqueryExec => of(r.child)
      case a: AdaptiveSparkPlanExec => of(a.initialPlan)
      case f: FileSourceScanExec => all(files(f.relation.location) +: f.subqueries.map(of))
      case f: FilteredScan => all(f.children.map(of) ++ (if (everything) f.joinFilters.map(_._1.facts.tables) else Nil))
      case b: BatchScanExec =>
        b.scan match {
          case s: FileScan => all(files(s.fileIndex) +: b.subqueries.map(of))
          case _ => unknown(System.identityHashCode(b.table))
        }
      case c: InMemoryTableScanExec => Some(Seq(System.identityHashCode(c.relation.cacheBuilder)))
      // Their rows are part of the plan.
      case _: LocalTableScanExec | _: RangeExec => Some(Nil)
      case leaf if leaf.children.isEmpty => unknown()
      case other => all((other.children ++ other.subqueries).map(of))
    }
    def files(index: FileIndex): Option[Seq[Any]] = index match {
      // It lists when it is asked, by a cache of its own: statistics are too old to tell what that is.
      case c: CatalogFileIndex if !everything => Some(Seq(System.identityHashCode(c)))
      case other => ofFiles(other).map(Seq(_)).orElse(unknown())
    }
    of(plan)
  }

  private def all(contents: Seq[Option[Seq[Any]]]): Option[Seq[Any]] =
    Traverse(contents)(_.toRight("")).toOption.map(_.flatten.distinct)

  private def ofFiles(files: FileIndex): Option[Any] = files match {
    case f: PartitioningAwareFileIndex => Some(Listings(f))
    // Without statistics its size is a constant.
    case f: CatalogFileIndex => f.table.stats.map(s => (s.sizeInBytes, s.rowCount))
    // Others may have to read a log to tell their size.
    case f => DeltaTable.forIndex(f).map(_.id)
  }
}
