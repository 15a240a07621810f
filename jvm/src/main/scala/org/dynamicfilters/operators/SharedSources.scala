package org.dynamicfilters.operators

import java.lang.ref.{ReferenceQueue, WeakReference}
import java.util.{Collections, IdentityHashMap}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.execution.{SparkPlan, SubqueryBroadcastExec}
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec

/** The DataSource V2 scan objects that several places of a plan share. A runtime filter that one place gives such a scan would
  * also filter the other places.
  *
  * Spark optimizes a subquery (IN, EXISTS) before it pushes the subquery's condition through a union. Then each branch joins with
  * the same scan object. Compared by identity, because sources define equality of scans freely. On the driver.
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

  /** Records the scans that occur more than once in the plan, its stages and its subqueries. Subqueries of adaptive execution are
    * not visited, because they have plans of their own.
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
      // A subquery that prunes partitions is a join's build side planned again. It becomes the exchange of that build side.
      p.subqueries.filterNot(_.isInstanceOf[SubqueryBroadcastExec]).foreach(visit)
    }
    if (plan.exists(_.isInstanceOf[SpecScan])) visit(plan)
  }

  def has(scan: Scan): Boolean = shared.contains(new ById(scan, null))
}
