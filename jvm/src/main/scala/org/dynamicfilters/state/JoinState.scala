package org.dynamicfilters.state

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue, CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.{AtomicLong, AtomicReference}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.dynamicfilters.filter.{BuiltFilter, FilterCodec, KeyLimits, KeyPartial, TupleBuilder, TupleText, ValueFilter}

/** What the driver knows of one join filter, from planning to the end of the query.
  *
  * All or nothing (contract 2): there is no filter before every partition of the build side has reported. A partition that
  * reports again, after a retry, replaces what it reported before.
  *
  * Thread-safe. `offer` only stores, because Spark merges accumulators on the scheduler's thread; whoever asks first after
  * the last partition has reported builds the filter.
  *
  * @param columns
  *   of a filter of tuples, the states of its single keys: it is complete after them, because they decide whether it is of
  *   any use. None for a filter of one key
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

  /** Takes over what another filter of equal keys finds: Spark uses that one's exchange for this join too.
    *
    * Never in a circle, and none whose build side has started follows one whose has not: then that one follows. What has been
    * given up stays so.
    */
  def follow(other: JoinState): Unit = {
    val joined = JoinState.Following.synchronized {
      // What the other follows may have other keys than it would have, if it was given up for that.
      val (mine, its) = (top, other.root)
      if ((mine eq other.top) || isDisabled || mine.isDisabled || (leader != null && !mine.isRegistered)) None
      else if (its.isRegistered && !mine.isRegistered) Some(its.under(mine))
      else Option.when(!mine.hasAllKeys)(mine.under(its))
    }
    joined.foreach(_.catchUp())
  }

  /** The one whose keys count: that which it follows, or itself. It may change at any moment.
    *
    * What it follows may be given up, or never have all keys, as where a subquery's stages are cancelled, while its own build
    * side runs. And where planning finds that this one must not be used, it is not used, whatever becomes of the other.
    */
  private def root: JoinState = {
    val l = leader
    if (l == null || isDisabled || hasAllKeys) this
    else {
      val of = l.root
      if (of.isDisabled && !isRegistered) this else of
    }
  }

  /** The first of those that follow each other, whatever became of them. There are no circles, as only it comes to follow. */
  private def top: JoinState = Option(leader).fold(this)(_.top)

  /** Whether its own build side has told all keys. */
  private def hasAllKeys: Boolean = is { case Building(_, Reports.All) | Ready(_, _, _, _) => true }

  private def is(p: PartialFunction[JoinPhase, Boolean]): Boolean = p.applyOrElse(phaseNow.get, (_: JoinPhase) => false)

  private def isRegistered: Boolean = phaseNow.get == Registered

  /** Whether it is given up, and not only what it follows: then it may have keys of its own. */
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

  /** Its own build side starts: what it followed may never do so. */
  private def lead(): Unit = JoinState.Following.synchronized {
    val last = top
    if ((last ne this) && last.isRegistered) {
      leader.followers.remove(this)
      leader = null
      last.under(this)
    }
  }

  def isFollower: Boolean = leader != null

  /** Of how many keys' tuples it is the filter. */
  def keys: Int = math.max(columns.size, 1)
  private def isTuple: Boolean = keys > 1

  /** Columns of scans that it filters, for reports. */
  def columnNames: Seq[String] = names
  def addColumn(name: String): Unit = synchronized(if (!names.contains(name)) names :+= name)

  private val listeners = new ConcurrentLinkedQueue[() => Unit]()

  /** Whether the build side's job has been submitted, or never will be. */
  def hasBegun: Boolean = begun.getCount == 0

  private def begin(): Unit = {
    begun.countDown()
    followers.forEach(_.begin())
  }

  /** Whoever waits goes on, for this filter or for one that follows it. */
  private def settle(): Unit = {
    begun.countDown()
    settled.countDown()
    listeners.forEach(_())
    followers.forEach(_.settle())
  }

  /** Calls `f` whenever the filter is ready or given up, or whoever waits is let go; at least once after that. It must be short
    * and not fail: it may be Spark's scheduler that calls.
    */
  def onSettled(f: () => Unit): Unit = {
    listeners.add(f)
    if (isSettled) f()
  }

  // Of the operator that collects the keys; what it does with them must not fail.
  @volatile private var shows: JoinState.Shows = _

  /** Tells of the filter once it is complete, and of each wait for it: that of the first start, whose keys count. */
  def showWith(s: JoinState.Shows): Unit = synchronized(if (shows == null) shows = s)

  /** What the exchange between processes did not do with it, for reports. */
  @volatile var sending: Option[String] = None

  // Scans in stages that have not ended, by their RDD. Spark's stages tell.
  private val running = ConcurrentHashMap.newKeySet[Int]()
  @volatile private var scansStarted = false

  def scanStarted(rdd: Int): Unit = {
    scansStarted = true
    running.add(rdd)
  }
  def scanEnded(rdd: Int): Unit = running.remove(rdd)

  /** Whether every scan that it is for has ended. */
  def scansEnded: Boolean = scansStarted && running.isEmpty

  /** Whether plans and reports may show values. */
  @volatile var showValues: Boolean = true

  def phase: JoinPhase = { val of = root; of.own; of.phaseNow.get }

  /** The phase, without a large filter that nobody has asked for: to build it takes long. */
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
    *   whether its keys are wanted: not those of a second start, as of a plan that is executed again. It may have other
    *   partitions than the first, and what both report would be mixed
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
    // Without a lock, because building takes one for long: what came while it ended is dropped by whoever sees that.
    if (isDone) partials.clear()
    if (outgrown) settle()
    checkComplete()
  }

  /** Whether nothing that partitions report can matter any more: a stage that runs again reports once more. */
  private def isDone: Boolean = is { case Ready(_, _, _, _) | Disabled(_) => true }

  /** Of how many partitions it keeps the keys. */
  private[state] def kept: Int = partials.size

  private def checkComplete(): Unit = phaseNow.get match {
    case now @ Building(partitions, reports)
        if reports != Reports.All && partials.size >= partitions && columns.forall(_.isSettled) =>
      if (readyAt == 0L) {
        readyAt = System.nanoTime()
        seen.updateAndGet(_.copy(ready = System.currentTimeMillis()))
      }
      // Meanwhile it may have been given up, or have ended.
      if (phaseNow.compareAndSet(now, now.copy(reports = Reports.All))) settle() else checkComplete()
    case _ =>
  }

  private def isComplete: Boolean = is { case Building(_, reports) => reports == Reports.All }

  private def build(): Unit = if (built()) phaseNow.get match {
    case Ready(_, bytes, _, distinct) if shows != null => shows.complete(bytes, distinct)
    case _ =>
  }

  /** @return
    *   whether it was built now
    */
  private def built(): Boolean = synchronized {
    val mine = isComplete
    if (mine) {
      buildsLarge = isLarge
      phaseNow.set(
        try {
          // One by one, so that bytes and keys of all of them are not held at a time.
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
            Disabled(s"${e.getClass.getSimpleName} while building the filter")
        }
      )
      // After the phase has changed; see `offer`.
      partials.clear()
    }
    mine
  }

  private def union(parts: Seq[KeyPartial]): Either[String, BuiltFilter] =
    if (isTuple) TupleBuilder.build(parts, limits, columns.map(_.distinct))
    else Right(KeyPartial.build(parts, limits, nullsMatch))

  /** How many keys pass; None if that is not known, or not yet. */
  private def distinct: Option[Long] = phase match {
    case Ready(_, _, _, n) => n
    case _ => None
  }

  /** Gives the filter up, if it is not ready, and lets everybody go on who waits for it. */
  def disable(reason: String): Unit =
    phaseNow.get match {
      case Building(_, Reports.All) | Ready(_, _, _, _) | Disabled(_) => settle()
      case now =>
        val why = if (isIncomplete) JoinState.Incomplete else reason
        if (phaseNow.compareAndSet(now, Disabled(why))) {
          partials.clear()
          settle()
        } else disable(reason)
    }

  /** The build side has ended, whether or not each of its partitions has reported. */
  def buildEnded(): Unit = {
    phaseNow.updateAndGet {
      case Building(n, Reports.Coming) => Building(n, Reports.Missing)
      case other => other
    }
    settle()
  }

  /** Whether the build side ended before each of its partitions had reported. */
  def isIncomplete: Boolean = is { case Building(_, reports) => reports == Reports.Missing }

  /** Lets everybody go on who waits; the filter may still become ready. */
  def release(): Unit = settle()

  def isSettled: Boolean = settled.getCount == 0

  /** Blocks until the filter is ready, can no longer come, or the time is over.
    *
    * @param deadline
    *   as `System.nanoTime`
    * @param endsAtStart
    *   whether the time is also over when the build side's job has been submitted
    * @param look
    *   called now and then as long as the build side has not begun: it may find that this will never be, and says whether to
    *   wait on. It must be short and not fail
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
    if (of.shows != null) of.shows.waited(millis)
  }

  /** The longest time that a scan was held back for it. */
  def waitedMillis: Long = waited.get

  /** From the start of the build side to its last partition; None before. */
  def readyMillis: Option[Long] =
    if (readyAt == 0L || startedAt == 0L) None else Some(math.max(0L, (readyAt - startedAt) / 1000000))

  /** When it came to be; of a follower, when the other one's keys were complete. */
  def times: FilterTimes = seen.get.copy(ready = root.seen.get.ready)

  /** A scan starts that has the filter from its first row on. */
  def usedFromStart(): Unit =
    seen.updateAndGet(t => if (t.used > 0) t else t.copy(used = System.currentTimeMillis()))

  def expression(column: String): String = current match {
    case None => "true"
    case Some(f) if isTuple && showValues => TupleText.expression(f, column)
    case Some(f) => f.shown(column, showValues)
  }

  // Last, when everything else of this object is there.
  columns.foreach(_.onSettled(() => checkComplete()))
}

object JoinState {

  /** Held while one filter begins to follow another. */
  private object Following

  /** What an operator shows of the filter that it makes, on the driver. */
  trait Shows {

    /** @param distinct
      *   how many keys pass, if that is known
      */
    def complete(bytes: Int, distinct: Option[Long]): Unit

    /** A scan was held back for so long. */
    def waited(millis: Long): Unit
  }

  /** Bytes of keys. */
  private val BuiltAtEnd = 256 * 1024L

  /** From the moment when a tap is asked for its rows until the job that wants them has been submitted. */
  private val SubmissionNanos = TimeUnit.MILLISECONDS.toNanos(10)

  /** How often whoever waits looks whether the build side will begin at all. */
  private val LookNanos = TimeUnit.MILLISECONDS.toNanos(20)

  val Incomplete = "not every partition of the build side has reported"
}
