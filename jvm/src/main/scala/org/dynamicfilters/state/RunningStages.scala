package org.dynamicfilters.state

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/** Parts of plans that run and that joins' filters have to do with, by their RDDs. On the driver. */
abstract class RunningStages {
  import RunningStages.Stage

  private val byRdd = new ConcurrentHashMap[Int, Stage]()
  // Of a query that is cancelled, threads that plan its stages may go on for a while.
  private val over = new EndedExecutions

  protected def onStart(filter: JoinFilterState, rdd: Int): Unit
  protected def onEnd(filter: JoinFilterState, rdd: Int): Unit

  /** The execution has ended, and the stage never ran. */
  protected def onForget(filter: JoinFilterState, rdd: Int): Unit

  def started(executionId: Long, rdd: Int, filters: Seq[JoinFilterState]): Unit = if (filters.nonEmpty) {
    byRdd.put(rdd, Stage(executionId, filters))
    filters.foreach(onStart(_, rdd))
    if (over.contains(executionId)) remove(rdd)(onForget)
  }

  /** A stage with this RDD has ended. */
  def ended(rdd: Int): Unit = remove(rdd)(onEnd)

  def executionEnded(id: Long): Unit = {
    over.add(id)
    byRdd.asScala.foreach { case (rdd, stage) => if (stage.executionId == id) remove(rdd)(onForget) }
  }

  private def remove(rdd: Int)(tell: (JoinFilterState, Int) => Unit): Unit = {
    val stage = byRdd.remove(rdd)
    if (stage != null) stage.filters.foreach(tell(_, rdd))
  }

  /** How many there are; for tests of the life cycle. */
  def live: Int = byRdd.size
  def clear(): Unit = {
    byRdd.clear()
    over.clear()
  }
}

private object RunningStages {
  final case class Stage(executionId: Long, filters: Seq[JoinFilterState])
}

/** Scans of join filters: a filter that comes after all of them is of no use to anybody. */
object RunningScans extends RunningStages {
  override protected def onStart(filter: JoinFilterState, rdd: Int): Unit = filter.scanStarted(rdd)
  override protected def onEnd(filter: JoinFilterState, rdd: Int): Unit = filter.scanEnded(rdd)
  override protected def onForget(filter: JoinFilterState, rdd: Int): Unit = filter.scanEnded(rdd)
}

/** Build sides of joins: when one has ended well, Spark has merged the accumulators of all its tasks. If not every partition
  * has reported by then, nobody needs to wait any longer.
  */
object RunningBuilds extends RunningStages {
  override protected def onStart(filter: JoinFilterState, rdd: Int): Unit = ()
  override protected def onEnd(filter: JoinFilterState, rdd: Int): Unit = filter.buildEnded()
  override protected def onForget(filter: JoinFilterState, rdd: Int): Unit = ()
}
