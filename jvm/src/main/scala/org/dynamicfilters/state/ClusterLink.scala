package org.dynamicfilters.state

/** What this process asks of the cluster for its executions. All return at once. */
trait ClusterLink {

  /** This process holds something of an execution from now on: it has to hear of its end, or else to sweep. */
  def joined(executionId: Long): Unit

  /** A TopK of this process that the cluster shares. The driver is asked for the bound that there is. */
  def topK(executionId: Long, name: FilterName, spec: TopKSpec): TopKState

  /** Asks for what the driver knows of a filter, and will know. */
  def subscribe(executionId: Long, name: FilterName): Unit
}
