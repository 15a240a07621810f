package org.dynamicfilters.plan

import java.lang.ref.WeakReference

import scala.collection.mutable

import org.apache.hadoop.fs.FileStatus
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.datasources.{CatalogFileIndex, FileIndex, PartitioningAwareFileIndex}
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, FileScan}
import org.apache.spark.sql.execution.dynamicfilters.TableAccess
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec}
import org.dynamicfilters.filter.Traverse
import org.dynamicfilters.operators.FilteredScan
import org.dynamicfilters.state.BuildSideFacts
import org.dynamicfilters.tables.DeltaTable

/** The state of a plan's tables as a value that changes when their contents change, without access to the tables.
  * [[FilterHistory]] and [[PlannedBuildSide]] compare it.
  */
private[plan] object TableContents {

  /** The state of all tables of the plan, of its subqueries, and of the build sides of its scans' filters.
    *
    * @return
    *   None if a table may change without notice
    */
  def state(plan: SparkPlan): Option[Seq[Any]] = contents(plan, everything = true)

  /** The state of the tables of the plan and its subqueries. For a table whose state is unknown, the identity of the resolved
    * table: a query shares it with its subqueries, not with cached plans.
    */
  def knownState(plan: SparkPlan): Seq[Any] = contents(plan, everything = false).getOrElse(Nil)

  /** @param everything
    *   whether build sides of filters count, and whether one unknown table makes the result None
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
      // Their rows are in the plan.
      case _: LocalTableScanExec | _: RangeExec => Some(Nil)
      case leaf if leaf.children.isEmpty => unknown()
      case other => all((other.children ++ other.subqueries).map(of))
    }
    def files(index: FileIndex): Option[Seq[Any]] = index match {
      // It lists files at execution, so statistics of the catalog do not identify them.
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
    // Other indexes may have to read a log to know their size.
    case f => DeltaTable.forIndex(f).map(_.id)
  }
}

/** Caches sizes and digests of file listings, which planning needs several times for each filter: one takes 0.2 s for a million
  * files. Keyed by the identity of the listing; a refresh makes a new one.
  */
private[plan] object Listings {
  private final class Known(listing: AnyRef, val of: (Long, Long)) extends WeakReference[AnyRef](listing)

  private val MostKnown = 64
  private val known = mutable.ArrayDeque.empty[Known]

  /** Bytes of all files, and a digest of their paths, sizes and modification times in any order: a rewritten table may have the
    * same size.
    */
  def apply(files: PartitioningAwareFileIndex): (Long, Long) = {
    val listing = TableAccess.listing(files)
    known.synchronized(known.find(_.get eq listing).map(_.of)).getOrElse {
      val now =
        files.allFiles().foldLeft((0L, 0L)) { case ((size, digest), s) => (size + s.getLen, digest + digestOf(s)) }
      known.synchronized {
        known.filterInPlace(_.get != null)
        if (known.size >= MostKnown) known.removeHead()
        known.append(new Known(listing, now))
      }
      now
    }
  }

  private def digestOf(s: FileStatus): Long = {
    val h = (s.getPath.hashCode * Mix + s.getLen) * Mix + s.getModificationTime
    (h ^ (h >>> 29)) * Mix
  }

  /** The constant of SplitMix64, so that sums of the files' hashes do not cancel each other. */
  private val Mix = 0x9e3779b97f4a7c15L
}

/** Facts about a build side from its plan. Lazy and kept, because each fact asks the filters below for theirs.
  *
  * @param side
  *   the whole side of the join
  * @param exchange
  *   the exchange above the tap
  */
private[plan] final class PlannedBuildSide(side: SparkPlan, exchange: Exchange, override val passed: Seq[String])
    extends BuildSideFacts {
  override lazy val sideHash: Int = side.canonicalized.hashCode
  override lazy val tables: Option[Seq[Any]] = TableContents.state(side)
  override lazy val listed: Seq[Any] = exchange.session +: TableContents.knownState(exchange)
  override lazy val repeats: Boolean = Repeatable.elsewhere(exchange.children.head)
  // As planned, before other filters reduce the build side.
  override val expectedShare: Double = BuildEstimates.estimate(exchange).fold(1.0)(_.selectivity)
}
