package org.dynamicfilters.hints

import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.dynamicfilters.Settings

/** Moves hints into the relations that they are for, as an option of the relation ([[ScanHint.OptionKey]]).
  *
  * In the optimizer and not earlier, because the option makes the relation another one: by then Spark has looked whether the
  * data is in the cache, and whether two parts of a plan are the same is asked of plans with equal hints.
  *
  * A table expression that Spark computes once for several references keeps the hints in its own text only: with a hint for
  * one reference its references would be computed apart.
  */
object HintPlacement extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.exists(_.isInstanceOf[DynamicFilterHint])) plan
    else place(plan, None, Settings.get(conf, Settings.Enabled))

  private def place(plan: LogicalPlan, hint: Option[ScanHint], enabled: Boolean): LogicalPlan = plan match {
    case h: DynamicFilterHint => place(h.child, ScanHint.both(hint, Some(h.hint)), enabled)
    case l: LogicalRelation => if (enabled) hint.fold[LogicalPlan](l)(marked(l, _)) else l
    case other =>
      val below = other.mapChildren(place(_, hint, enabled))
      if (hint.isEmpty) below
      else
        // Of a view that is hinted as a whole. Subqueries outside of one have hints of their own.
        below.transformExpressionsWithPruning(_.containsPattern(PLAN_EXPRESSION)) { case s: SubqueryExpression =>
          s.withNewPlan(place(s.plan, hint, enabled))
        }
  }

  private def marked(l: LogicalRelation, hint: ScanHint): LogicalPlan = l.relation match {
    case files: HadoopFsRelation =>
      val known = files.options.get(ScanHint.OptionKey).flatMap(ScanHint.named)
      val name = ScanHint.both(known, Some(hint)).get.name
      val withHint = files.copy(options = files.options + (ScanHint.OptionKey -> name))(files.sparkSession)
      // makeCopy, because the constructor differs between Spark versions.
      l.makeCopy(l.productIterator.map {
        case _: HadoopFsRelation => withHint
        case other => other.asInstanceOf[AnyRef]
      }.toArray)
    case _ => l
  }
}

/** Plans what has not gone through [[HintPlacement]], as where a user excludes that rule: the hint is lost, the query runs. */
object HintStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case h: DynamicFilterHint => planLater(h.child) :: Nil
    case _ => Nil
  }
}
