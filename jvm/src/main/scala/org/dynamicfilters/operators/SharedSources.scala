package org.dynamicfilters.operators

import java.lang.ref.{ReferenceQueue, WeakReference}
import java.util.{Collections, IdentityHashMap}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.execution.{SparkPlan, SubqueryBroadcastExec}
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec

/** Scans of DataSource V2 of which one object stands in several places of a plan: what one place tells the source, as a filter
  * at run time, holds in the others too.
  *
  * Spark optimizes a subquery (IN, EXISTS) before it pushes its condition through a union: then each branch joins with the same
  * scan. By identity, as sources call scans equal that are not the same. On the driver.
  */
object SharedSources {
  private val gone = new ReferenceQueue[Scan]

  private final class ById(scan: Scan, queue: ReferenceQueue[Scan]) extends WeakReference[Scan](scan, queue) {
    override val hashCode: Int = System.identityHashCode(scan)
    override def equals(other: Any): Boolean = other match {
      case that: ById => (this eq that) || (get != null && (get eq that.get))
      case _ => false
    }
  }
  private val shared = ConcurrentHashMap.newKeySet[ById]()

  /** Notes which scans of the plan stand in several places, its stages included, and its subqueries as far as they show: not those
    * of adaptive execution, which have plans of their own.
    */
  def note(plan: SparkPlan): Unit = {
    Iterator.continually(gone.poll()).takeWhile(_ != null).foreach { case r: ById => shared.remove(r); case _ => }
    val seen = new IdentityHashMap[Scan, BatchScanExec]
    val visited = Collections.newSetFromMap(new IdentityHashMap[SparkPlan, java.lang.Boolean])
    def visit(p: SparkPlan): Unit = if (visited.add(p)) {
      p match {
        case b: BatchScanExec =>
          val other = seen.put(b.scan, b)
          if (other != null && (other ne b)) shared.add(new ById(b.scan, gone))
        case q: QueryStageExec => visit(q.plan)
        case _ =>
      }
      p.children.foreach(visit)
      // What prunes partitions is the build side of a join, planned once more, and becomes its exchange.
      p.subqueries.filterNot(_.isInstanceOf[SubqueryBroadcastExec]).foreach(visit)
    }
    if (plan.exists(_.isInstanceOf[SpecScan])) visit(plan)
  }

  def has(scan: Scan): Boolean = shared.contains(new ById(scan, null))
}
