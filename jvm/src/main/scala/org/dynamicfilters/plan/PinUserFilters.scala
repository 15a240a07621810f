package org.dynamicfilters.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.dynamicfilters.filter.PluginFailure
import org.dynamicfilters.user.{DynamicFilterPredicate, Generation, UserFilterException, UserFilters}

/** Pins one generation of each user filter for the whole query, including subqueries.
  *
  * A rule of plan normalization. That phase comes after analysis, which runs once for all executions of a DataFrame, and before
  * Spark looks for cached data: data cached under one generation is not used under another.
  */
object PinUserFilters extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!UserFilters.everUsed) plan
    else {
      val pins = mutable.HashMap.empty[(String, String), Generation]
      def pinned(of: LogicalPlan): LogicalPlan = of.transformAllExpressionsWithSubqueries {
        case p: DynamicFilterPredicate if p.pin.isEmpty =>
          p.copy(pin = Some(pins.getOrElseUpdate((p.sessionId, p.name), pin(p))))
      }
      pinned(plan) match {
        case c if readsItsPlansItself(c) =>
          val parts = c.productIterator.map {
            case p: LogicalPlan => pinned(p)
            case other => other.asInstanceOf[AnyRef]
          }.toArray
          try c.makeCopy(parts)
          catch {
            case PluginFailure(e) =>
              logWarning(s"Dynamic filters: ${c.nodeName} may see several generations of a user's filter", e)
              c
          }
        case other => other
      }
    }

  /** Whether the command is one of Delta's that has plans beside its children. Delta's MERGE runs several queries over its source
    * and target, one to find files and one to write: with two generations it would write rows twice. Plans of other commands
    * must not change (the query of a view).
    */
  private def readsItsPlansItself(plan: LogicalPlan): Boolean =
    plan.isInstanceOf[Command] && plan.getClass.getName.startsWith(DeltaCommands) &&
      plan.productIterator.exists(_.isInstanceOf[LogicalPlan])

  private val DeltaCommands = "org.apache.spark.sql.delta.commands."

  /** The current generation. Since analysis, the filter may have been closed, and another one made under its name. */
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
