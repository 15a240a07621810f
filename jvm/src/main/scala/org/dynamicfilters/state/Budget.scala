package org.dynamicfilters.state

/** What a step of a scan cost, and what it was good for. All in nanoseconds.
  *
  * @param spent
  *   on the step itself
  * @param saved
  *   estimate of what would have been spent without it
  * @param work
  *   of the scan and all that runs above it in the same tasks, the step included
  */
final case class Cost(spent: Long, saved: Long, work: Long)

object Cost {
  val none: Cost = Cost(0, 0, 0)
}

/** How much a step of a scan may cost: what it saved so far, and a small part of the work, which bounds what a useless filter
  * can take from a query. As work goes on, what is over its budget comes within it again, and is tried: the next part of a table
  * may be of another kind.
  *
  * Of steps of some microseconds wall time stands for processor time: both sides are taken in the same threads. Thread-safe.
  */
final class Budget {
  private var spent, saved, work = 0L

  def add(c: Cost): Unit = synchronized {
    // What was seen last counts most: a table may be clustered.
    if (work > Budget.MuchWork) { spent /= 2; saved /= 2; work /= 2 }
    spent += c.spent
    saved += c.saved
    work += c.work
  }

  def isOver: Boolean = synchronized(spent > Budget.Grace + saved + work * Budget.Share)
}

object Budget {

  /** Of the work: what a useless filter may cost at most. */
  private[state] val Share = 0.03

  /** Less says nothing yet: code that is not compiled, another task on the core. */
  private[state] val Grace = 10000000L
  private val MuchWork = 2000000000L
}
