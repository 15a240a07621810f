package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.execution.{FilterExec, ScalarSubquery, SparkPlan}
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.filter.KeyDomain
import org.dynamicfilters.operators.{SpecScan, Tagged}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.report.Rejected
import org.dynamicfilters.state.{Producer, SubqueryRef}

/** Makes filters of conditions that compare a column with values of scalar subqueries: `id = (SELECT max(last) FROM days)`.
  * [[DynamicFilterRule]] calls it.
  *
  * The conditions stay in the plan, so a scan need not be exact. The comparisons of one column are one filter.
  */
final class SubqueryPlanner(conf: SQLConf) {
  import SubqueryPlanner._

  def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case f: FilterExec if f.condition.exists(_.isInstanceOf[ScalarSubquery]) => planned(f)
  }

  private def planned(f: FilterExec): SparkPlan = {
    val all = Conjuncts(f.condition).flatMap(Compared.of(_, isSide = _.references.nonEmpty, isValue))
    val columns = all.map(_.side.canonicalized).distinct
    val child = columns.map(c => all.filter(_.side.canonicalized == c)).foldLeft(f.child) { (below, ofColumn) =>
      val done = pushed(below, f.condition, ofColumn)
      done.left.foreach { reason =>
        val names = ofColumn.head.side.references.map(_.name).toSeq.take(1)
        DynamicFilterRule.reject(f, Rejected(Producer.subquery, names, reason))
      }
      done.getOrElse(below)
    }
    if (child eq f.child) f else f.withNewChildren(Seq(child))
  }

  private def pushed(p: SparkPlan, condition: Expression, compared: Seq[Compared]): Either[Reason, SparkPlan] = {
    val values = compared.map(_.value)
    for {
      // Otherwise Spark may compute a subquery once for the condition and once for the scan.
      _ <- Either.cond(conf.subqueryReuseEnabled, (), Reasons.SubqueriesNotReused)
      // Random numbers depend on the position of a row, so the scan must not drop rows.
      _ <- Either.cond(condition.deterministic, (), Reasons.RandomCondition)
      _ <- Either.cond(values.forall(isComputable), (), Reasons.SubqueryValue)
      domain <- KeyDomain.forType(values.head.dataType)
      ref = SubqueryRef(domain, compared.map(_.operator), values)
      done <- PushDown.fromCondition(p, condition, compared.head.side)(filtered(_, ref, values))
    } yield done
  }

  private def filtered(at: PushDown.Reached, ref: SubqueryRef, values: Seq[Expression]): Either[Reason, SparkPlan] = {
    val name = at.shownNames.head
    at.scan match {
      // The rule has run before, on the whole plan.
      case s: SpecScan if s.spec.columns.exists(c => c.shownName == name && c.ref == ref) => Right(s)
      case _ =>
        ScanPlanner.filtered(at, Seq(ref), conf).flatMap {
          case s: SpecScan => Right(Tagged[SparkPlan](s.withValues(values), s))
          // The operators of custom scans have no expressions of which Spark would run the subqueries.
          case _ => Left(Reasons.TakesNone(name))
        }
    }
  }
}

private object SubqueryPlanner {

  /** Whether an expression has subqueries and no columns. */
  private def isValue(e: Expression): Boolean = e.references.isEmpty && e.exists(_.isInstanceOf[ScalarSubquery])

  /** Whether the driver can compute the value. Functions of users may have side effects, or take long. */
  private def isComputable(value: Expression): Boolean = value.deterministic && !value.exists {
    case _: ScalarSubquery => false
    case _: PlanExpression[_] | _: Unevaluable | _: UserDefinedExpression => true
    case _ => false
  }
}
