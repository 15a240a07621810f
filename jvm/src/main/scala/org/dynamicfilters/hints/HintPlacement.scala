package org.dynamicfilters.hints

import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder, SubqueryExpression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTable
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.dynamicfilters.operators.WithArguments
import org.dynamicfilters.settings.Settings

/** A hint on one relation of an analyzed plan, directly above it.
  *
  * Exists from the resolution of hints to the optimizer ([[HintPlacement]]). Canonicalizes to its child, so that a hinted query still
  * uses cached data.
  */
case class DynamicFilterHint(hint: ScanHint, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doCanonicalize(): LogicalPlan = child.canonicalized
  override def simpleString(maxFields: Int): String = s"DynamicFilterHint ${hint.name}"
  override protected def withNewChildInternal(newChild: LogicalPlan): DynamicFilterHint = copy(child = newChild)
}

/** Moves each hint into its relation, as an option of the relation ([[ScanHint.OptionKey]]).
  *
  * Runs in the optimizer, because the option makes relations unequal. By then Spark has replaced cached data, and it compares only
  * plans with equal hints.
  *
  * Hints on one reference to a table expression are dropped if Spark computes the expression once for all references. With the
  * hint Spark would compute it twice. Hints inside the expression stay.
  */
object HintPlacement extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.exists(_.isInstanceOf[DynamicFilterHint])) plan
    else place(plan, None, Settings.get(conf, Settings.Enabled))

  private def place(plan: LogicalPlan, hint: Option[ScanHint], enabled: Boolean): LogicalPlan = plan match {
    case h: DynamicFilterHint => place(h.child, ScanHint.both(hint, Some(h.hint)), enabled)
    // The JDBC source passes unknown options to the database driver, which may refuse them.
    case l: DataSourceV2Relation if l.table.isInstanceOf[JDBCTable] => l
    case l @ (_: LogicalRelation | _: DataSourceV2Relation) => if (enabled) hint.fold(l)(marked(l, _)) else l
    case other =>
      val below = other.mapChildren(place(_, hint, enabled))
      if (hint.isEmpty) below
      else
        // Inside a view that is hinted as a whole. Other subqueries have hints of their own.
        below.transformExpressionsWithPruning(_.containsPattern(PLAN_EXPRESSION)) { case s: SubqueryExpression =>
          s.withNewPlan(place(s.plan, hint, enabled))
        }
  }

  private def marked(leaf: LogicalPlan, hint: ScanHint): LogicalPlan =
    WithArguments(leaf) {
      case files: HadoopFsRelation =>
        files.copy(options = files.options + option(files.options.get(ScanHint.OptionKey), hint))(files.sparkSession)
      case options: CaseInsensitiveStringMap =>
        val (key, value) = option(Option(options.get(ScanHint.OptionKey)), hint)
        val all = new java.util.HashMap[String, String](options.asCaseSensitiveMap)
        all.put(key, value)
        new CaseInsensitiveStringMap(all)
    }

  private def option(known: Option[String], hint: ScanHint): (String, String) =
    ScanHint.OptionKey -> ScanHint.both(known.flatMap(ScanHint.named), Some(hint)).get.name
}

/** Plans a hint that [[HintPlacement]] has not moved, for example if a user excluded that rule. The hint has no effect. */
object HintStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case h: DynamicFilterHint => planLater(h.child) :: Nil
    case _ => Nil
  }
}
