package org.dynamicfilters.operators

import org.apache.spark.sql.execution.SparkPlan

/** A node with the tags of the node that it replaces. One of them is the logical link, which adaptive execution asserts. */
private[dynamicfilters] object Tagged {
  def apply[P <: SparkPlan](node: P, replaced: SparkPlan): P = {
    if (node ne replaced) node.copyTagsFrom(replaced)
    node
  }
}
