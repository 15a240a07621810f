package org.dynamicfilters.hints

import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}

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
