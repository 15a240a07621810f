package org.dynamicfilters.exchange

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/** Which build sides of joins run, by their RDDs: when one has ended and not every partition has reported, nobody needs to wait
  * any longer. On the driver.
  */
object RunningBuilds {
  private final case class Build(executionId: Long, filters: Seq[JoinFilterState])
  private val byRdd = new ConcurrentHashMap[Int, Build]()

  // As in RunningScans.
  private val over = new EndedExecutions

  def started(executionId: Long, rdd: Int, filters: Seq[JoinFilterState]): Unit = {
    byRdd.put(rdd, Build(executionId, filters))
    if (over.contains(executionId)) byRdd.remove(rdd)
  }

  /** A stage with this RDD has ended well: Spark has merged the accumulators of all its tasks. */
  def ended(rdd: Int): Unit = {
    val build = byRdd.remove(rdd)
    if (build != null) build.filters.foreach(_.buildEnded())
  }

  /** Forgets build sides whose stages never ran. */
  def executionEnded(id: Long): Unit = {
    over.add(id)
    byRdd.asScala.foreach { case (rdd, build) => if (build.executionId == id) byRdd.remove(rdd) }
  }

  /** How many there are; for tests of the life cycle. */
  def live: Int = byRdd.size
  def clear(): Unit = {
    byRdd.clear()
    over.clear()
  }
}
