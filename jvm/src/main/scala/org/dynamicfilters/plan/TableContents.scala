package org.dynamicfilters.plan

import java.lang.ref.WeakReference

import scala.collection.mutable

import org.apache.hadoop.fs.FileStatus
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.datasources.{CatalogFileIndex, FileIndex, PartitioningAwareFileIndex}
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, FileScan}
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec}
import org.dynamicfilters.operators.FilteredScan
import org.dynamicfilters.state.BuildSideFacts
import org.dynamicfilters.tables.DeltaTable

/** The state of a plan's tables as a value that changes when their contents change. For [[PlannedBuildSide]]. */
private[plan] object TableContents {

  /** The state of the tables of the plan and its subqueries. For a table whose state is unknown, the identity of the
    * resolved table: a query shares it with its subqueries, not with cached plans.
    */
  def state(plan: SparkPlan): Seq[Any] = of(plan).distinct

  private def of(plan: SparkPlan): Seq[Any] = plan match {
    case q: QueryStageExec => of(q.plan)
    case r: ReusedExchangeExec => of(r.child)
    case r: ReusedSubqueryExec => of(r.child)
    case a: AdaptiveSparkPlanExec => of(a.initialPlan)
    case f: FileSourceScanExec => files(f.relation.location) ++ f.subqueries.flatMap(of)
    case f: FilteredScan => f.children.flatMap(of)
    case b: BatchScanExec =>
      b.scan match {
        case s: FileScan => files(s.fileIndex) ++ b.subqueries.flatMap(of)
        case _ => Seq(System.identityHashCode(b.table))
      }
    case c: InMemoryTableScanExec => Seq(System.identityHashCode(c.relation.cacheBuilder))
    case other => (other.children ++ other.subqueries).flatMap(of)
  }

  private def files(index: FileIndex): Seq[Any] = index match {
    // It lists files at execution, so statistics of the catalog do not identify them.
    case c: CatalogFileIndex => Seq(System.identityHashCode(c))
    case f: PartitioningAwareFileIndex => Seq(Listings(f))
    // Other indexes may have to read a log to know their size.
    case f => DeltaTable.forIndex(f).map(_.id).toSeq
  }
}

/** Caches sizes and digests of file listings, which planning needs several times for each filter: one takes 0.2 s for a
  * million files. Keyed by the identity of the listing; a refresh makes a new one.
  */
private[plan] object Listings {
  private final class Known(listing: AnyRef, val of: (Long, Long)) extends WeakReference[AnyRef](listing)

  private val MostKnown = 64
  private val known = mutable.ArrayDeque.empty[Known]

  /** Bytes of all files, and a digest of their paths, sizes and modification times in any order: a rewritten table may
    * have the same size.
    */
  def apply(files: PartitioningAwareFileIndex): (Long, Long) = {
    val listing = SparkAccess.listing(files)
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

/** Facts about a build side from its plan. Lazy and kept, because each fact asks the filters below for theirs. */
private[plan] final class PlannedBuildSide(exchange: Exchange, override val passed: Seq[String])
    extends BuildSideFacts {
  override lazy val listed: Seq[Any] = exchange.session +: TableContents.state(exchange)
  override lazy val repeats: Boolean = Repeatable.elsewhere(exchange.children.head)
  // As planned, before other filters reduce the build side.
  override val expectedShare: Double = BuildEstimates.estimate(exchange).fold(1.0)(_.selectivity)
}
