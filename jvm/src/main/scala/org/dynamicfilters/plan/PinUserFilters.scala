package org.dynamicfilters.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.dynamicfilters.user.{DynamicFilterPredicate, Generation, UserFilterException, UserFilters}

/** Pins the generations of users' filters that a query uses: once a query, for all of it, subqueries included.
  *
  * A rule of plan normalization: that comes after analysis, which a DataFrame goes through once for all its queries, and
  * before Spark looks for cached data and optimizes. So data cached under one generation is not used under another.
  */
object PinUserFilters extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!UserFilters.everUsed) plan
    else {
      val pins = mutable.HashMap.empty[(String, String), Generation]
      plan.transformAllExpressionsWithSubqueries {
        case p: DynamicFilterPredicate if p.pin.isEmpty =>
          p.copy(pin = Some(pins.getOrElseUpdate((p.sessionId, p.name), pin(p))))
      }
    }

  /** The filter may have been closed since the query was analyzed, and another one made under its name. */
  private def pin(p: DynamicFilterPredicate): Generation = {
    val f = UserFilters.open(p.sessionId, p.name)
    if (f.domain.dataType != p.filterType)
      throw UserFilterException.of(
        UserFilterException.Code.TypeMismatch,
        p.name,
        f.typeText,
        s"it was of type ${p.filterType.catalogString} when the query was analyzed"
      )
    f.current
  }
}
