package org.dynamicfilters.state

/** What a process asks of the cluster for its executions. All methods return at once. */
trait ClusterLink {

  /** The process begins to hold something of an execution, and must be told of its end. */
  def joined(executionId: Long): Unit

  /** The state of a TopK that the cluster shares. Asks the driver for its current and all later bounds. */
  def topK(executionId: Long, name: FilterName, spec: TopKSpec): TopKState

  /** Asks the driver for the current and all later generations of a filter. */
  def subscribe(executionId: Long, name: FilterName): Unit
}
