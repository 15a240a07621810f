package org.dynamicfilters.state

import org.dynamicfilters.user.Generation

/** A user filter in plans, with the generation that is pinned for the query.
  *
  * @param follows whether running scans go on to newer generations that are tighter
  */
final class UserRef private (id: Long, val generation: Generation, val follows: Boolean)
    extends FilterRef(id, Producer.user) {
  @transient @volatile private var lastRun: UserState = _

  /** A scan starts, on the driver. */
  def started(state: UserState): Unit = lastRun = state

  override def driverRun: PlanRun = lastRun

  override def equals(other: Any): Boolean = other match {
    case that: UserRef => that.generation == generation && that.follows == follows
    case _ => false
  }
  override def hashCode: Int = generation.hashCode
}

object UserRef {
  private val refs = new WeakRegistry[(Long, Long, Boolean), UserRef]

  /** One object for each generation while a plan holds it, so that re-planning keeps the filters. */
  def apply(generation: Generation, follows: Boolean): UserRef = synchronized {
    val key = (generation.filterId, generation.number, follows)
    refs.find(key).getOrElse {
      val made = FilterRef.register(new UserRef(FilterRef.nextId(), generation, follows))
      refs.put(key, made)
      made
    }
  }
}
