package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.InnerLike
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.dynamicfilters.user.{DynamicFilterPredicate, UserFilterException, UserFilters}

/** Refuses `dynamic_filter_prune` unless it is a conjunct of WHERE or of an inner join.
  *
  * The function may pass rows that do not match. Under NOT, OR or CASE, in an outer join or as a column, the answer would be
  * wrong. Like [[SettingsCheck]], an analyzer rule that changes nothing.
  */
object PruneCheck extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (UserFilters.everUsed) plan.foreachWithSubqueries {
      case f: Filter => refuse(notConjuncts(f.condition))
      case j: Join if j.joinType.isInstanceOf[InnerLike] => refuse(j.condition.toSeq.flatMap(notConjuncts))
      case other => refuse(other.expressions)
    }
    plan
  }

  private def notConjuncts(condition: Expression): Seq[Expression] = Conjuncts(condition).map {
    case u: DynamicFilterPredicate => u.child
    case other => other
  }

  private def refuse(expressions: Seq[Expression]): Unit =
    expressions.flatMap(_.collectFirst { case u: DynamicFilterPredicate if u.follows => u }).headOption.foreach { u =>
      throw UserFilterException.of(
        UserFilterException.Code.InvalidUse,
        u.name,
        u.filterType.catalogString,
        "dynamic_filter_prune may let rows pass that do not match, so it can only be a condition of WHERE or of an inner " +
          "join, alone or joined by AND; dynamic_filter can stand anywhere"
      )
    }
}
