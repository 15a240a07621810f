package org.dynamicfilters.state

/** Stages with scans or build sides of joins' filters, by their RDDs. Held by their executions, on the driver. */
object RunningStages {
  private final case class ScanKey(rdd: Int)
  private final case class BuildKey(rdd: Int)

  /** Scans of these filters start: a filter that comes after all of its scans is of no use to anybody. */
  def scanStarted(executionId: Long, rdd: Int, filters: Seq[JoinState]): Unit =
    if (filters.nonEmpty) Executions.instance.attach(executionId, ScanKey(rdd))(new RunningScan(rdd, filters))

  /** A build side starts: when it has ended well, Spark has merged the accumulators of all its tasks. If not every partition
    * has reported by then, nobody needs to wait any longer.
    */
  def buildStarted(executionId: Long, rdd: Int, filters: Seq[JoinState]): Unit =
    if (filters.nonEmpty) Executions.instance.attach(executionId, BuildKey(rdd))(new RunningBuild(filters))

  /** A stage with this RDD has ended.
    *
    * @param well
    *   one that failed is tried again, or its job fails
    */
  def ended(rdd: Int, well: Boolean): Unit = {
    Executions.instance.detach(ScanKey(rdd))
    if (well) Executions.instance.detach[RunningBuild](BuildKey(rdd)).foreach(_.ended())
  }
}

final class RunningScan(rdd: Int, filters: Seq[JoinState]) extends AutoCloseable {
  filters.foreach(_.scanStarted(rdd))
  override def close(): Unit = filters.foreach(_.scanEnded(rdd))
}

final class RunningBuild(filters: Seq[JoinState]) {
  def ended(): Unit = filters.foreach(_.buildEnded())
}
