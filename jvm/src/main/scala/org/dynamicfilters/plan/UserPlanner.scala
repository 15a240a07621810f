package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, RangePartitioning, SinglePartition}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.{FileSourceScanExec, FilterExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, FileScan}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.operators.{PlanNodes, SpecScan}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.state.UserRef
import org.dynamicfilters.user.DynamicFilterPredicate

/** Puts user filters into the scans below their conditions, which Spark's optimizer has pushed down. The conditions stay in the
  * plan, so a scan need not be exact. [[DynamicFilterRule]] calls it.
  */
final class UserPlanner(plan: SparkPlan, conf: SQLConf) {
  import UserPlanner._

  /** Whether scans may follow newer generations. Not below a round-robin exchange: if a retried task dropped other rows than its
    * first attempt, the remaining rows would go to other partitions, and matching rows would be lost.
    */
  private lazy val mayFollow: Boolean = !hasRoundRobin(plan)

  def apply(): SparkPlan = if (plan.exists(uses)) visit(plan) else plan

  private def visit(p: SparkPlan): SparkPlan = p match {
    case s: SpecScan => byPartition(s, partitionFilters(s.child))
    case s @ (_: FileSourceScanExec | _: BatchScanExec) => byPartition(s, partitionFilters(s))
    case f: FilterExec =>
      val child = byEach(f, userFilters(f.condition), visit(f.child)) { (below, u) =>
        for {
          // Random numbers depend on the position of a row, so the scan must not drop rows.
          _ <- Either.cond(f.condition.deterministic, (), Reasons.RandomCondition)
          done <- PushDown.fromCondition(below, f.condition, u.child)(filtered(_, u))
        } yield done
      }
      if (child eq f.child) f else f.withNewChildren(Seq(child))
    case other => other.mapChildren(visit)
  }

  /** Filters a plan by each of an operator's user filters, or notes why not. */
  private def byEach(at: SparkPlan, filters: Seq[DynamicFilterPredicate], plan: SparkPlan)(
      filtered: (SparkPlan, DynamicFilterPredicate) => Either[Reason, SparkPlan]
  ): SparkPlan = filters.foldLeft(plan) { (below, u) =>
    val done = filtered(below, u)
    for (reason <- done.left.toOption; column <- u.child.references.headOption) note(at, u, column, reason)
    done.getOrElse(below)
  }

  private def filtered(at: PushDown.Reached, u: DynamicFilterPredicate): Either[Reason, SparkPlan] =
    ScanPlanner.filtered(at, Seq(UserRef(u.generation, u.follows && mayFollow)), conf)

  /** Handles conditions on partition columns alone, which Spark moves into the scan. */
  private def byPartition(scan: SparkPlan, conditions: Seq[Expression]): SparkPlan = {
    val ofColumns = conditions.flatMap(userFilters).filter(_.child.isInstanceOf[Attribute])
    byEach(scan, ofColumns, scan) { (s, u) =>
      // By name, because sources of DataSource V2 have other attribute ids.
      val named = u.child.references.head
      val column = scan.output.find(_.name == named.name).getOrElse(named)
      filtered(PushDown.Reached(s, Seq(column), crossed = false, computed = None), u)
    }
  }

  private def note(f: SparkPlan, u: DynamicFilterPredicate, column: Attribute, reason: Reason): Unit = {
    val rows = RowsOnly(UserRef(u.generation, follows = false), column.name, reason)
    val known = f.getTagValue(RowsOnlyTag).getOrElse(Nil)
    if (!known.contains(rows)) f.setTagValue(RowsOnlyTag, known :+ rows)
  }
}

object UserPlanner {

  /** A user filter that is evaluated only in its condition, and why no scan uses it. */
  final case class RowsOnly(ref: UserRef, column: String, reason: Reason)

  /** On the operator with the condition. Reports read it when the query has ended. */
  val RowsOnlyTag: TreeNodeTag[Seq[RowsOnly]] = TreeNodeTag[Seq[RowsOnly]]("dynamicfilters.rowsOnly")

  /** Whether a condition is a user filter on a column, which scans evaluate themselves. */
  def isInScan(condition: Expression): Boolean = condition match {
    case DynamicFilterPredicate(_, _, _, _, Some(_), _: Attribute) => true
    case _ => false
  }

  private def uses(p: SparkPlan): Boolean =
    (p.expressions ++ partitionFilters(p)).exists(_.exists(_.isInstanceOf[DynamicFilterPredicate]))

  private def partitionFilters(scan: SparkPlan): Seq[Expression] = scan match {
    case f: FileSourceScanExec => f.partitionFilters
    case b: BatchScanExec =>
      b.scan match {
        case f: FileScan => f.partitionFilters
        case _ => Nil
      }
    case _ => Nil
  }

  /** The user filters among the conjuncts. */
  private def userFilters(condition: Expression): Seq[DynamicFilterPredicate] =
    Conjuncts(condition).collect { case u: DynamicFilterPredicate if u.pin.isDefined => u }

  private def hasRoundRobin(plan: SparkPlan): Boolean = PlanNodes.withStages(plan).exists {
    case e: ShuffleExchangeLike =>
      e.outputPartitioning match {
        case _: HashPartitioning | _: RangePartitioning | SinglePartition => false
        // Round-robin. Spark 4.3 has another one that hashes keys, but distributes NULLs round-robin.
        case _ => true
      }
    case _ => false
  }
}
