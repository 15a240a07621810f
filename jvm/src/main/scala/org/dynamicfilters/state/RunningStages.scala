package org.dynamicfilters.state

/** Tells join filters of the end of stages with their scans and build sides, by RDD id. On the driver. Operators
  * register their RDDs, [[org.dynamicfilters.lifecycle.QueryListener]] reports ended stages.
  */
object RunningStages {
  private final case class ScanKey(rdd: Int)
  private final case class BuildKey(rdd: Int)

  /** A scan of these filters starts. A filter is not sent any more once all of its scans have ended. */
  def scanStarted(executionId: Long, rdd: Int, filters: Seq[JoinState]): Unit =
    if (filters.nonEmpty) Executions.instance.attach(executionId, ScanKey(rdd))(new RunningScan(rdd, filters))

  /** A build side starts. At the successful end of its stage, Spark has merged the accumulators of all tasks, so
    * reports that are missing then will not come.
    */
  def buildStarted(executionId: Long, rdd: Int, filters: Seq[JoinState]): Unit =
    if (filters.nonEmpty) Executions.instance.attach(executionId, BuildKey(rdd))(new RunningBuild(filters))

  /** A stage with this RDD has ended.
    *
    * @param well false if the stage failed, and will be tried again, unless its job fails
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
