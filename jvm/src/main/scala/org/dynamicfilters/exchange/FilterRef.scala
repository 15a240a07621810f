package org.dynamicfilters.exchange

import java.util.concurrent.atomic.AtomicLong

/** The filter that a plan's producer and scans share.
  *
  * The id is new for every planned producer and never enters a comparison of plans: two plans that are equal but for it are
  * equal, so that Spark reuses exchanges and subqueries as before. What is compared is `marker`, which comes from the
  * producer's canonical form. State is kept by (SQL execution, id): a plan may be executed twice.
  *
  * @param id
  *   unique in the application, shown to users as `DynamicFilter#<id>`
  * @param producer
  *   topk | join | aggregate | user
  */
final class FilterRef(val id: Long, val producer: String, val marker: String, val spec: TopKSpec) extends Serializable {
  @transient @volatile private var inForce: String => String = _

  @transient private var runs = 0L

  /** Starts a run of the plan, on the driver: the producer calls this before the scans below it start.
    *
    * Partitions are numbered within a run. A plan that is run again, even within one SQL execution, may put other files into
    * a partition, so rows counted in one run say nothing in another.
    */
  def nextRun(): Long = synchronized { runs += 1; runs }

  /** The run that a scan belongs to which starts now. */
  def currentRun: Long = synchronized(runs)

  @transient @volatile private var lastRun: AnyRef = _

  /** What the producer called [[started]] with last; null before, and on executors. */
  def driverRun: AnyRef = lastRun

  /** Tells, on the driver, where plans find the filter's state: in the execution that was started last.
    *
    * @param run
    *   the producer's record of it
    * @param expression
    *   from a column's name to the filter in force
    */
  def started(run: AnyRef, expression: String => String): Unit = {
    lastRun = run
    inForce = expression
  }

  /** As plans show it: `DynamicFilter#3 [k: true]` before execution, the filter in force after it. */
  def describe(column: String): String = {
    val f = inForce
    s"$this [$column: ${if (f == null) "true" else f(column)}]"
  }

  override def equals(other: Any): Boolean = other match {
    case that: FilterRef => that.producer == producer && that.marker == marker
    case _ => false
  }
  override def hashCode: Int = marker.hashCode
  override def toString: String = s"DynamicFilter#$id"
}

object FilterRef {
  private val ids = new AtomicLong
  def topK(marker: String, spec: TopKSpec): FilterRef = new FilterRef(ids.incrementAndGet(), "topk", marker, spec)
}
