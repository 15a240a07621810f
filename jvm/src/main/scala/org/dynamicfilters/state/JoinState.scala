package org.dynamicfilters.state

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue, CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.{AtomicLong, AtomicReference}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.dynamicfilters.filter.{BuiltFilter, FilterCodec, KeyLimits, KeyPartial, TupleBuilder, TupleText, ValueFilter}
import org.dynamicfilters.reasons.{Reason, Reasons}

/** The state of one join filter on the driver, from planning to the end of the query.
  *
  * All or nothing (contract 2): there is no filter before every partition of the build side has reported. A second report of a
  * partition, after a retry, replaces the first.
  *
  * Thread-safe. `offer` only stores, because Spark merges accumulators on the scheduler's thread. The first reader after the
  * last report builds the filter.
  *
  * @param columns
  *   of a filter by tuples, the states of its single keys. They complete first, because their sizes decide whether tuples help
  */
final class JoinState(
    val filterId: Long,
    nullsMatch: Boolean,
    limits: KeyLimits,
    columns: Seq[JoinState] = Nil
) extends KeyOffers
    with Logging {
  import JoinPhase._

  private val partials = new ConcurrentHashMap[Int, Array[Byte]]()
  private val settled, begun = new CountDownLatch(1)
  private val phaseNow = new AtomicReference[JoinPhase](Registered)
  @volatile private var startedAt = 0L
  @volatile private var readyAt = 0L
  private val waited = new AtomicLong
  private val seen = new AtomicReference(FilterTimes(registered = System.currentTimeMillis()))

  @volatile private var leader: JoinState = _
  @volatile private var names = Vector.empty[String]
  private val followers = new java.util.concurrent.CopyOnWriteArrayList[JoinState]()

  /** Uses the keys of another filter, because Spark reuses its exchange for this join.
    *
    * Never in a cycle. If only this one's build side has started, the other one follows instead. A disabled filter stays
    * disabled.
    */
  def follow(other: JoinState): Unit = {
    val joined = JoinState.Following.synchronized {
      // Its root, not its top: a filter may have been disabled because the keys of its top differ.
      val (mine, its) = (top, other.root)
      if ((mine eq other.top) || isDisabled || mine.isDisabled || (leader != null && !mine.isRegistered)) None
      else if (its.isRegistered && !mine.isRegistered) Some(its.under(mine))
      else Option.when(!mine.hasAllKeys)(mine.under(its))
    }
    joined.foreach(_.catchUp())
  }

  /** The filter whose keys count: the one it follows, or itself. May change at any moment.
    *
    * Itself if it is disabled, if its own build side has reported all keys, or if the followed one is disabled while its own
    * build side runs (the stages of a subquery may be cancelled).
    */
  private def root: JoinState = {
    val l = leader
    if (l == null || isDisabled || hasAllKeys) this
    else {
      val of = l.root
      if (of.isDisabled && !isRegistered) this else of
    }
  }

  /** The first in the chain of followed filters, in any state. Only a top begins to follow, so there are no cycles. */
  private def top: JoinState = Option(leader).fold(this)(_.top)

  /** Whether its own build side has reported all keys. */
  private def hasAllKeys: Boolean = is { case Building(_, Reports.All) | Ready(_, _, _, _) => true }

  private def is(p: PartialFunction[JoinPhase, Boolean]): Boolean = p.applyOrElse(phaseNow.get, (_: JoinPhase) => false)

  private def isRegistered: Boolean = phaseNow.get == Registered

  /** Whether this filter is disabled, in contrast to the one that it follows. */
  def isDisabled: Boolean = is { case Disabled(_) => true }

  private def under(other: JoinState): JoinState = {
    leader = other
    other.followers.add(this)
    this
  }

  private def catchUp(): Unit = {
    val of = root
    if (of.hasBegun) begin()
    if (of.isSettled) settle()
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

  /** Number of key columns. */
  def keys: Int = math.max(columns.size, 1)
  private def isTuple: Boolean = keys > 1

  /** Scan columns that the filter is used on, for reports. */
  def columnNames: Seq[String] = names
  def addColumn(name: String): Unit = synchronized(if (!names.contains(name)) names :+= name)

  private val listeners = new ConcurrentLinkedQueue[() => Unit]()

  /** Whether the build side's job has been submitted, or never will be. */
  def hasBegun: Boolean = begun.getCount == 0

  private def begin(): Unit = {
    begun.countDown()
    followers.forEach(_.begin())
  }

  /** Releases everything that waits for this filter, or for one that follows it. */
  private def settle(): Unit = {
    begun.countDown()
    settled.countDown()
    listeners.forEach(_())
    followers.forEach(_.settle())
  }

  /** Calls `f` each time the filter settles, and at least once after that. `f` must be short and not fail: Spark's scheduler may
    * call it.
    */
  def onSettled(f: () => Unit): Unit = {
    listeners.add(f)
    if (isSettled) f()
  }

  // Set by the tap; must not fail.
  @volatile private var metrics: JoinState.Metrics = _

  /** Sets the receiver of metrics. The first call counts, as do the keys of the first start. */
  def setMetrics(s: JoinState.Metrics): Unit = synchronized(if (metrics == null) metrics = s)

  /** Why the filter was not sent to executors, for reports. */
  @volatile var sending: Option[Reason] = None

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

  /** Whether plans and reports may show values. */
  @volatile var showValues: Boolean = true

  def phase: JoinPhase = { val of = root; of.own; of.phaseNow.get }

  /** The phase, without building a large filter that no scan has used. */
  def phaseAtEnd: JoinPhase = if (root.buildsLarge || root.isLarge) root.phaseNow.get else phase
  private def isLarge = partials.values.stream.mapToLong(_.length.toLong).sum > JoinState.BuiltAtEnd
  @volatile private var buildsLarge = false

  /** The filter, if the build side is complete. Its generation is the id of the state whose build side made it: one that
    * follows another may get keys of its own later.
    */
  def named: Option[NamedFilter] = {
    val of = root
    of.own.map(NamedFilter(FilterName(filterId, of.filterId), _))
  }
  def current: Option[ValueFilter] = root.own

  private def own: Option[ValueFilter] = {
    if (isComplete) build()
    phaseNow.get match {
      case Ready(filter, _, _, _) => Some(filter)
      case _ => None
    }
  }

  /** The build side starts.
    *
    * @return
    *   whether to collect its keys: false at a second start (a plan that is executed again), whose partitions may differ
    */
  def started(partitions: Int): Boolean = synchronized {
    val isFirst = phaseNow.get == Registered && {
      startedAt = System.nanoTime()
      phaseNow.compareAndSet(Registered, Building(partitions))
    }
    if (isFirst) {
      lead()
      begin()
      checkComplete()
    }
    isFirst
  }

  override def offer(partition: Int, encoded: Array[Byte], outgrown: Boolean): Unit = if (!isDone) {
    partials.put(partition, encoded)
    // No lock, because building holds it for long. If the filter was done meanwhile, this report is dropped here.
    if (isDone) partials.clear()
    if (outgrown) settle()
    checkComplete()
  }

  /** Whether further reports do not matter: a stage that runs again reports again. */
  private def isDone: Boolean = is { case Ready(_, _, _, _) | Disabled(_) => true }

  /** Number of partitions whose keys are held. */
  private[state] def kept: Int = partials.size

  private def checkComplete(): Unit = phaseNow.get match {
    case now @ Building(partitions, reports)
        if reports != Reports.All && partials.size >= partitions && columns.forall(_.isSettled) =>
      if (readyAt == 0L) {
        readyAt = System.nanoTime()
        seen.updateAndGet(_.copy(ready = System.currentTimeMillis()))
      }
      // The phase may have changed meanwhile.
      if (phaseNow.compareAndSet(now, now.copy(reports = Reports.All))) settle() else checkComplete()
    case _ =>
  }

  private def isComplete: Boolean = is { case Building(_, reports) => reports == Reports.All }

  private def build(): Unit = if (built()) phaseNow.get match {
    case Ready(_, bytes, _, distinct) if metrics != null => metrics.complete(bytes, distinct)
    case _ =>
  }

  /** @return
    *   whether this call built the filter
    */
  private def built(): Boolean = synchronized {
    val mine = isComplete
    if (mine) {
      buildsLarge = isLarge
      phaseNow.set(
        try {
          // One by one, to free the bytes of each as its keys are decoded.
          val decoded =
            partials.keySet.toArray(Array.empty[Integer]).toSeq.map(i => KeyPartial.decode(partials.remove(i)))
          decoded.collectFirst { case Left(reason) => reason } match {
            case Some(reason) => Disabled(reason)
            case None =>
              union(decoded.collect { case Right(p) => p }) match {
                case Left(reason) => Disabled(reason)
                case Right(built) =>
                  Ready(built.filter, FilterCodec.sizeOf(built.filter).toInt, built.reduced, built.distinct)
              }
          }
        } catch {
          case NonFatal(e) =>
            logWarning(s"Dynamic filters: filter $filterId could not be built, rows pass", e)
            Disabled(Reasons.Failed(e, "building the filter"))
        }
      )
      // After the phase has changed; see `offer`.
      partials.clear()
    }
    mine
  }

  private def union(parts: Seq[KeyPartial]): Either[Reason, BuiltFilter] =
    if (isTuple) TupleBuilder.build(parts, limits, columns.map(_.distinct))
    else Right(KeyPartial.build(parts, limits, nullsMatch))

  /** Number of keys that pass; None if unknown. */
  private def distinct: Option[Long] = phase match {
    case Ready(_, _, _, n) => n
    case _ => None
  }

  /** Disables the filter, unless it has all keys, and releases waiting scans. */
  def disable(reason: Reason): Unit =
    phaseNow.get match {
      case Building(_, Reports.All) | Ready(_, _, _, _) | Disabled(_) => settle()
      case now =>
        val why = if (isIncomplete) Reasons.Incomplete else reason
        if (phaseNow.compareAndSet(now, Disabled(why))) {
          partials.clear()
          settle()
        } else disable(reason)
    }

  /** The build side's stage has ended, with or without reports of all partitions. */
  def buildEnded(): Unit = {
    phaseNow.updateAndGet {
      case Building(n, Reports.Coming) => Building(n, Reports.Missing)
      case other => other
    }
    settle()
  }

  /** Whether the build side's stage ended before all partitions had reported. */
  def isIncomplete: Boolean = is { case Building(_, reports) => reports == Reports.Missing }

  /** Releases waiting scans. The filter may still complete later. */
  def release(): Unit = settle()

  def isSettled: Boolean = settled.getCount == 0

  /** Blocks until the filter settles, or the time is over.
    *
    * @param deadline
    *   as `System.nanoTime`
    * @param endsAtStart
    *   whether the time is also over once the build side's job is submitted
    * @param look
    *   called periodically until the build side starts, says whether to wait on: it may find that the build side will never
    *   start. It must be short and not fail
    */
  def await(deadline: Long, endsAtStart: Boolean = false, look: () => Boolean = () => true): Unit = {
    val from = System.nanoTime()
    var goesOn = true
    while (
      goesOn && !begun.await(math.min(JoinState.LookNanos, deadline - System.nanoTime()), TimeUnit.NANOSECONDS) &&
      System.nanoTime() < deadline
    ) goesOn = look()
    val until =
      if (!goesOn) from
      else if (endsAtStart && hasBegun) math.min(deadline, System.nanoTime() + JoinState.SubmissionNanos)
      else deadline
    settled.await(math.max(0L, until - System.nanoTime()), TimeUnit.NANOSECONDS)
    val millis = (System.nanoTime() - from) / 1000000
    waited.accumulateAndGet(millis, (a: Long, b: Long) => math.max(a, b))
    val of = root
    if (of.metrics != null) of.metrics.waited(millis)
  }

  /** The longest wait of a scan for it. */
  def waitedMillis: Long = waited.get

  /** Time from the start of the build side to its last report; None before. */
  def readyMillis: Option[Long] =
    if (readyAt == 0L || startedAt == 0L) None else Some(math.max(0L, (readyAt - startedAt) / 1000000))

  /** Times for reports; of a follower, `ready` is that of the followed filter. */
  def times: FilterTimes = seen.get.copy(ready = root.seen.get.ready)

  /** A scan starts with the complete filter. */
  def usedFromStart(): Unit =
    seen.updateAndGet(t => if (t.used > 0) t else t.copy(used = System.currentTimeMillis()))

  def expression(column: String): String = current match {
    case None => if (isDisabled) "true" else FilterRef.NotKnownYet
    case Some(f) if isTuple && showValues => TupleText.expression(f, column)
    case Some(f) => f.shown(column, showValues)
  }

  // Last, after all fields are initialized.
  columns.foreach(_.onSettled(() => checkComplete()))
}

object JoinState {

  /** Lock for changes of `leader`. */
  private object Following

  /** Receives what a tap shows of its filter as metrics, on the driver. */
  trait Metrics {

    /** @param distinct
      *   number of keys that pass, if known
      */
    def complete(bytes: Int, distinct: Option[Long]): Unit

    /** A scan waited this long. */
    def waited(millis: Long): Unit
  }

  /** `phaseAtEnd` builds filters of up to this many bytes of keys. */
  private val BuiltAtEnd = 256 * 1024L

  /** Upper limit for the time between the tap's `doExecute` and the submission of its job. */
  private val SubmissionNanos = TimeUnit.MILLISECONDS.toNanos(10)

  /** Time between two calls of `look` during a wait. */
  private val LookNanos = TimeUnit.MILLISECONDS.toNanos(20)
}
