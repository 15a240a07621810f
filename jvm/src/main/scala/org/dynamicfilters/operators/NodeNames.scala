package org.dynamicfilters.operators

import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.trees.TreeNode
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/** An operator of ours. Operators above it see its child's output, partitioning and order. */
trait SameOutput extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
}

/** Adds the filter ids to operator names for the graph in Spark's SQL tab, which shows little else of an operator. Not part of
  * plan comparison. Plans as text show the filters themselves.
  */
private[operators] object NodeNames {
  private val Most = 3

  def apply(name: String, filterIds: Seq[Long]): String = {
    val ids = filterIds.distinct
    val shown = ids.take(Most).map(id => s"DynamicFilter#$id").mkString(", ")
    if (ids.isEmpty) name else s"$name $shown${if (ids.size > Most) ", ..." else ""}"
  }
}

/** A node with the tags of the node that it replaces. One of them is the logical link, which adaptive execution asserts. */
private[dynamicfilters] object Tagged {
  def apply[P <: SparkPlan](node: P, replaced: SparkPlan): P = {
    if (node ne replaced) node.copyTagsFrom(replaced)
    node
  }
}

/** A copy of a node with other constructor arguments. The constructors of Spark's nodes differ between its versions. */
private[dynamicfilters] object WithArguments {
  def apply[T <: TreeNode[T]](node: T)(changed: PartialFunction[Any, Any]): T =
    node.makeCopy(node.productIterator.map(changed.applyOrElse[Any, Any](_, identity).asInstanceOf[AnyRef]).toArray)
}
