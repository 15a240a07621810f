package org.dynamicfilters.state

import java.util.concurrent.{ConcurrentHashMap, CopyOnWriteArrayList}

import org.dynamicfilters.filter.{KeyLimits, ValueFilter}
import org.dynamicfilters.reasons.Reason

/** The state of one join filter on the driver, from planning to the end of the query: which build side its keys come
  * from. [[KeyReports]] collects the keys, [[FilterLatch]] holds scans back, [[JoinRecord]] keeps what reports show.
  *
  * Thread-safe. `offer` only stores, because Spark merges accumulators on the scheduler's thread. The first reader
  * after the last report builds the filter.
  */
final class JoinState(val filterId: Long, nullsMatch: Boolean, limits: KeyLimits) extends KeyOffers with PlanRun {
  import JoinPhase._

  private val own = new KeyReports(filterId, nullsMatch, limits)
  private val latch = new FilterLatch
  val record = new JoinRecord

  @volatile private var leader: JoinState = _
  private val followers = new CopyOnWriteArrayList[JoinState]()

  /** Uses the keys of another filter, because Spark reuses its exchange for this join.
    *
    * Never in a cycle. If only this one's build side has started, the other one follows instead. A disabled filter
    * stays disabled.
    */
  def follow(other: JoinState): Unit = {
    val joined = JoinState.Following.synchronized {
      // Its root, not its top: a filter may have been disabled because the keys of its top differ.
      val (mine, its) = (top, other.root)
      if ((mine eq other.top) || isDisabled || mine.isDisabled || (leader != null && !mine.isRegistered)) None
      else if (its.isRegistered && !mine.isRegistered) Some(its.under(mine))
      else Option.when(!mine.own.phase.hasAllKeys)(mine.under(its))
    }
    joined.foreach(_.catchUp())
  }

  /** The filter whose keys count: the one it follows, or itself. May change at any moment.
    *
    * Itself if it is disabled, if its own build side has reported all keys, or if the followed one is disabled while
    * its own build side runs (the stages of a subquery may be cancelled).
    */
  private def root: JoinState = {
    val l = leader
    if (l == null || isDisabled || own.phase.hasAllKeys) this
    else {
      val of = l.root
      if (of.isDisabled && !isRegistered) this else of
    }
  }

  /** The first in the chain of followed filters, in any state. Only a top begins to follow, so there are no cycles. */
  private def top: JoinState = Option(leader).fold(this)(_.top)

  private def isRegistered: Boolean = own.phase == Registered

  /** Whether this filter is disabled, in contrast to the one that it follows. */
  def isDisabled: Boolean = own.phase.isDisabled

  private def under(other: JoinState): JoinState = {
    leader = other
    other.followers.add(this)
    this
  }

  private def catchUp(): Unit = {
    val of = root
    if (of.hasBegun) begin()
    if (of.isSettled) release()
  }

  /** Its own build side starts before the one that it follows, which may never start: swaps the two. */
  private def lead(): Unit = JoinState.Following.synchronized {
    val last = top
    if ((last ne this) && last.isRegistered) {
      leader.followers.remove(this)
      leader = null
      last.under(this)
    }
  }

  def isFollower: Boolean = leader != null

  def hasBegun: Boolean = latch.hasBegun
  def isSettled: Boolean = latch.isSettled

  /** See [[FilterLatch.onSettled]]. */
  def onSettled(f: () => Unit): Unit = latch.onSettled(f)

  /** Waits for the filter; see [[FilterLatch.await]]. */
  def await(deadline: Long, endsAtStart: Boolean = false, look: () => Boolean = () => true): Unit =
    record.waited(latch.await(deadline, endsAtStart, look), root.record)

  private def begin(): Unit = {
    latch.begin()
    followers.forEach(_.begin())
  }

  /** Releases scans that wait for this filter, or for one that follows it. The filter may still complete later. */
  def release(): Unit = {
    latch.settle()
    followers.forEach(_.release())
  }

  // RDD ids of filtered scans in running stages, by Spark's stage events.
  private val running = ConcurrentHashMap.newKeySet[Int]()
  @volatile private var scansStarted = false

  def scanStarted(rdd: Int): Unit = {
    scansStarted = true
    running.add(rdd)
  }
  def scanEnded(rdd: Int): Unit = running.remove(rdd)

  /** Whether all of its scans have ended. */
  def scansEnded: Boolean = scansStarted && running.isEmpty

  /** Whether scans have started, each of them before the filter was complete. */
  def scansStartedWithout: Boolean = scansStarted && record.times.used == 0

  def phase: JoinPhase = root.ownPhase

  /** The phase, without building a large filter that no scan has used. */
  def phaseAtEnd: JoinPhase = {
    val of = root
    if (of.own.isLarge) of.own.phase else of.ownPhase
  }

  /** The filter, if the build side is complete. Its generation is the id of the state whose build side made it: one
    * that follows another may get keys of its own later.
    */
  def named: Option[NamedFilter] = {
    val of = root
    of.ownFilter.map(NamedFilter(FilterName(filterId, of.filterId), _))
  }
  def current: Option[ValueFilter] = root.ownFilter

  private def ownFilter: Option[ValueFilter] = ownPhase match {
    case Ready(filter, _, _, _) => Some(filter)
    case _ => None
  }

  private def ownPhase: JoinPhase = {
    own.build().foreach(record.built)
    own.phase
  }

  /** The build side starts.
    *
    * @return whether to collect its keys: false at a second start (a plan that is executed again), whose partitions may
    *   differ
    */
  def started(partitions: Int): Boolean = {
    record.started()
    val isFirst = own.start(partitions)
    if (isFirst) {
      lead()
      begin()
      checkComplete()
    }
    isFirst
  }

  override def offer(partition: Int, encoded: Array[Byte], outgrown: Boolean): Unit = if (own.put(partition, encoded)) {
    if (outgrown) release()
    checkComplete()
  }

  private def checkComplete(): Unit = if (own.complete()) {
    record.ready()
    release()
  }

  /** Disables the filter, unless it has all keys, and releases waiting scans. */
  def disable(reason: Reason): Unit = {
    own.disable(reason)
    release()
  }

  /** The build side's stage has ended, with or without reports of all partitions. */
  def buildEnded(): Unit = {
    own.end()
    release()
  }

  /** Whether the build side's stage ended before all partitions had reported. */
  def isIncomplete: Boolean = own.phase match {
    case Building(_, reports) => reports == Reports.Missing
    case _ => false
  }

  /** Number of partitions whose keys are held. */
  private[state] def kept: Int = own.size

  /** Times for reports; of a follower, `ready` is that of the followed filter. */
  def times: FilterTimes = record.times.copy(ready = root.record.times.ready)

  override def shown(column: String): String = current match {
    case None => if (isDisabled) "true" else FilterRef.NotKnownYet
    case Some(f) => f.shown(column, record.showsValues)
  }
}

object JoinState {

  /** Lock for changes of `leader`. */
  private object Following
}
