package org.dynamicfilters.hints

import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTable
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.dynamicfilters.settings.Settings

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
    // It hands options that it does not know to the driver, which may refuse them; nor are such scans filtered early.
    case l: DataSourceV2Relation if l.table.isInstanceOf[JDBCTable] => l
    case l @ (_: LogicalRelation | _: DataSourceV2Relation) => if (enabled) hint.fold(l)(marked(l, _)) else l
    case other =>
      val below = other.mapChildren(place(_, hint, enabled))
      if (hint.isEmpty) below
      else
        // Of a view that is hinted as a whole. Subqueries outside of one have hints of their own.
        below.transformExpressionsWithPruning(_.containsPattern(PLAN_EXPRESSION)) { case s: SubqueryExpression =>
          s.withNewPlan(place(s.plan, hint, enabled))
        }
  }

  // makeCopy, because the constructors differ between Spark versions.
  private def marked(leaf: LogicalPlan, hint: ScanHint): LogicalPlan =
    leaf.makeCopy(leaf.productIterator.map {
      case files: HadoopFsRelation =>
        files.copy(options = files.options + option(files.options.get(ScanHint.OptionKey), hint))(files.sparkSession)
      case options: CaseInsensitiveStringMap =>
        val (key, value) = option(Option(options.get(ScanHint.OptionKey)), hint)
        val all = new java.util.HashMap[String, String](options.asCaseSensitiveMap)
        all.put(key, value)
        new CaseInsensitiveStringMap(all)
      case other => other.asInstanceOf[AnyRef]
    }.toArray)

  private def option(known: Option[String], hint: ScanHint): (String, String) =
    ScanHint.OptionKey -> ScanHint.both(known.flatMap(ScanHint.named), Some(hint)).get.name
}

/** Plans what has not gone through [[HintPlacement]], as where a user excludes that rule: the hint is lost, the query runs. */
object HintStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case h: DynamicFilterHint => planLater(h.child) :: Nil
    case _ => Nil
  }
}
