package org.dynamicfilters.state

import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{KeyDomain, LongDomain, ObjectDomain, SortedLongs, ValueFilter}

/** One task attempt's part in a TopK: counts the rows that the attempt outputs, and knows which rows it still needs.
  * Used by [[org.dynamicfilters.operators.TopKTap]] for rows, and by the task's scan for the filter.
  *
  * Keys of counted rows are added behind the best keys. When there is no more room, or the task's scan asks for the
  * filter, all are sorted and the best kept. These are shared periodically, so that the lock of [[TopKState]] is taken
  * once for many rows.
  *
  * Beside the shared bound, an attempt has its own. If ties are free, it is strict: after `limit` output rows that are
  * not worse than L, neither it nor a retry needs more rows with key L. Thus scans skip row groups of a column with few
  * distinct keys.
  *
  * One thread counts. Another thread gets the shared bound alone: Spark 4.3 may read the input of a Python function in
  * another thread (`spark.python.udf.pipelined.enabled`). NULLs are counted only if they sort first; otherwise they are
  * the worst rows, and leaving them out only makes the bound looser.
  *
  * @param send receives the attempt's best keys whenever they are shared, see [[Contribution.keys]]
  */
abstract class TaskTopK(val shared: TopKState, val partition: Int, send: Array[AnyRef] => Unit) {
  protected val spec: TopKSpec = shared.spec
  protected val limit: Int = spec.limit
  private var nulls = 0
  private var pendingNulls = 0
  private var seen: TopKBound = TopKBound.none
  private var pinned: Option[TopKBound] = None
  private var changed = false
  private var published = System.nanoTime() - TaskTopK.ShareEveryNanos
  private var pause = TaskTopK.ShareEveryNanos

  // The thread that counts. Not volatile: another thread never sees itself here.
  private var counting: Thread = _
  private val startedIn = Thread.currentThread

  private var offered = 0
  private var rowsDropped = 0L

  /** Number of rows that were not needed. */
  final def dropped: Long = rowsDropped

  // Whether values and NULLs can pass. The subclass also compares values with its bound.
  protected var bounded = false
  protected var valuesPass = true
  protected var nullsPass = true

  // There may be fewer distinct keys than `limit`, so that counting never gives a bound. Few rows are counted while no
  // new key is found. A row that is not counted only makes the bound looser.
  private var leftOut, between = 0

  /** Whether a needed row passes without being counted. */
  final protected def passesUncounted(): Boolean = between > 0 && {
    leftOut += 1
    if (leftOut > between) leftOut = 0
    leftOut != 0
  }

  /** The attempt's own bound: the key of its `limit`-th best row, if it has output that many. */
  private def ownWorst: Option[AnyRef] =
    if (nulls >= limit) Some(null)
    else Option.when(nulls + bestCount >= limit)(key(limit - nulls - 1))

  // Keys without NULL: the attempt's best ones, sorted, then those of rows counted since. Subclasses hold them.
  protected final var count = 0
  private var bestCount = 0

  /** Sorts the keys and, for distinct keys, drops repeated ones. Returns how many are left. */
  protected def sorted(): Int

  /** The i-th key. */
  protected def key(i: Int): AnyRef

  /** Drops all keys but the best. Returns whether rows were counted since. */
  private def keepBest(): Boolean = count > bestCount && {
    val worst = if (bestCount > 0) key(bestCount - 1) else null
    count = math.min(limit, sorted())
    if (spec.distinct) {
      val hasNew = count > bestCount || spec.order.compare(worst, key(count - 1)) != 0
      between = if (hasNew) 0 else StepTracker.FirstPause - 1
    }
    bestCount = count
    true
  }

  protected def setValueBound(shared: Option[(AnyRef, Boolean)], own: Option[AnyRef]): Unit

  /** Whether a row with a NULL key is needed. Counts the row if so. */
  final def acceptNull(): Boolean = {
    countOffer()
    if (!nullsPass) drop()
    else {
      if (spec.nullsFirst) {
        pendingNulls += 1
        if (pendingNulls >= math.max(TaskTopK.BufferRows, limit)) flush()
      }
      true
    }
  }

  /** Merges counted rows into the attempt's best keys, shares these if the last time is long enough ago, and takes over
    * the newest bound.
    */
  final def flush(): Unit = {
    changed |= keepBest() | pendingNulls > 0
    nulls = math.min(nulls + pendingNulls, if (spec.distinct) 1 else limit)
    pendingNulls = 0
    if (changed && System.nanoTime() - published >= pause) publish()
    refresh()
  }

  /** Shares the attempt's best keys at once. */
  final def publish(): Unit = if (changed) {
    val start = System.nanoTime()
    send(Array.tabulate(math.min(limit, nulls + bestCount))(i => if (i < nulls) null else key(i - nulls)))
    changed = false
    published = System.nanoTime()
    // Limits sharing to a small part of the task's time, for any limit.
    pause = math.max(TaskTopK.ShareEveryNanos, ((published - start) / StepTracker.ShareOfWork).toLong)
  }

  /** Uses this bound instead of the shared one from now on, so that every attempt of the partition drops the same rows
    * (contract 8). The attempt's own bound depends only on its rows.
    */
  final def pin(bound: TopKBound): Unit = {
    pinned = Some(bound)
    refresh()
  }

  /** Called for each row by the thread that counts. For the first row, and then every [[TaskTopK.RefreshRows]] rows,
    * takes over the newest bound.
    */
  final protected def countOffer(): Unit = {
    offered += 1
    if ((offered & (TaskTopK.RefreshRows - 1)) == 1) {
      if (counting == null) counting = Thread.currentThread
      refresh()
    }
  }

  /** Counts a row that is not needed, and returns false. */
  final protected def drop(): Boolean = { rowsDropped += 1; false }

  private def newestShared(): TopKBound = {
    val newest = pinned.getOrElse(shared.bound)
    seen = newest
    newest
  }

  /** Takes over the newest shared bound. */
  final def refresh(): Unit = {
    val newest = newestShared()
    val own = ownWorst
    bounded = !newest.isNone || own.isDefined
    if (bounded) {
      val inclusive = !spec.tiesFree || partition <= newest.partition
      val sharedNull = !newest.isNone && newest.key == null
      val ownNull = own.exists(_ == null)
      // With a NULL bound no value is needed. It arises only with nulls first, because nulls are not counted otherwise.
      valuesPass = !sharedNull && !ownNull
      nullsPass = spec.nullsFirst && !(ownNull && spec.tiesFree) && !(sharedNull && !inclusive)
      setValueBound(if (newest.isNone || sharedNull) None else Some((newest.key, inclusive)), own.filter(_ != null))
    }
  }

  /** The rows that this task still needs, after all rows that it has output.
    *
    * @param own whether to use the attempt's own bound, which is right only for a scan whose rows all reach this tap
    */
  final def filter(own: Boolean = true): ValueFilter =
    if (counting eq Thread.currentThread) {
      flush()
      within(seen, if (own) ownWorst else None)
    }
    // Another thread may ask before or after the tap has pinned its bound. It gets no filter in both cases, so that each
    // attempt drops the same rows.
    else if (pinned.isEmpty || (startedIn eq Thread.currentThread)) within(newestShared(), None)
    else ValueFilter.All

  private def within(bound: TopKBound, own: Option[AnyRef]): ValueFilter = {
    val fromShared = bound.filterFor(partition, spec)
    own.fold(fromShared)(k => fromShared.and(spec.atLeastAsGoodAs(k, inclusive = !spec.tiesFree)))
  }
}

object TaskTopK {

  /** Rows counted at least before keys are sorted. */
  private[state] val BufferRows = 1024

  /** Bytes of long keys that are kept beside the best: a thousand strings of 2 MB are 2 GB. */
  private[dynamicfilters] val BufferBytes = 1024 * 1024L

  private[dynamicfilters] def bytesOf(key: AnyRef): Long = key match {
    case s: UTF8String => 32L + s.numBytes
    case _ => 32L
  }

  /** Least time between two contributions of an attempt. */
  private[state] val ShareEveryNanos = 5L * 1000 * 1000

  /** Number of rows between two looks at the shared bound. A power of two. */
  private[state] val RefreshRows = 256

  def apply(shared: TopKState, partition: Int, attempt: Long): TaskTopK = apply(shared, partition, attempt, shared)

  /** @param sink passes contributions on to `shared` */
  def apply(shared: TopKState, partition: Int, attempt: Long, sink: ContributionSink): TaskTopK =
    shared.spec.domain match {
      case d: LongDomain => new LongTaskTopK(shared, d, partition, sink.contribute(partition, attempt, _))
      case d: ObjectDomain => new ObjectTaskTopK(shared, d, partition, sink.contribute(partition, attempt, _))
    }
}

/** For keys of at most eight bytes, compared as longs. Smaller is better: descending order flips the bits. */
final class LongTaskTopK(shared: TopKState, val domain: LongDomain, partition: Int, send: Array[AnyRef] => Unit)
    extends TaskTopK(shared, partition, send) {
  private val flip = if (spec.ascending) 0L else -1L
  private var keys = new Array[Long](2 * TaskTopK.BufferRows)
  // A value passes if its encoded form is at most this.
  private var maxEncoded = Long.MaxValue
  private var tiesPass = false

  /** Whether a row with this key is needed. Counts the row if so. */
  def accept(key: Long): Boolean = {
    countOffer()
    val encoded = key ^ flip
    if (bounded && (!valuesPass || encoded > maxEncoded)) drop()
    // If ties pass, counting another row with the bound's key does not tighten the bound.
    else if (tiesPass && encoded == maxEncoded) true
    else if (passesUncounted()) true
    else {
      keys(count) = encoded
      count += 1
      if (count == keys.length) {
        flush()
        if (count > keys.length / 2) keys = java.util.Arrays.copyOf(keys, 2 * keys.length)
      }
      true
    }
  }

  override protected def key(i: Int): AnyRef = java.lang.Long.valueOf(keys(i) ^ flip)

  override protected def sorted(): Int =
    if (spec.distinct) SortedLongs.distinct(keys, count)
    else {
      java.util.Arrays.sort(keys, 0, count)
      count
    }

  override protected def setValueBound(shared: Option[(AnyRef, Boolean)], own: Option[AnyRef]): Unit = {
    var max = Long.MaxValue
    def limitTo(key: AnyRef, inclusive: Boolean): Unit = {
      val encoded = key.asInstanceOf[java.lang.Long].longValue ^ flip
      if (inclusive) max = math.min(max, encoded)
      else if (encoded == Long.MinValue) valuesPass = false
      else max = math.min(max, encoded - 1)
    }
    shared.foreach { case (key, inclusive) => limitTo(key, inclusive) }
    own.foreach(limitTo(_, inclusive = !spec.tiesFree))
    maxEncoded = max
    tiesPass = !spec.tiesFree && (shared.isDefined || own.isDefined)
  }
}

/** For strings, binaries and wide decimals. */
final class ObjectTaskTopK(shared: TopKState, val domain: ObjectDomain, partition: Int, send: Array[AnyRef] => Unit)
    extends TaskTopK(shared, partition, send) {
  private val order = spec.order
  private var keys = new Array[AnyRef](2 * TaskTopK.BufferRows)
  private var limits: List[(AnyRef, Boolean)] = Nil

  /** Whether a row with this key is needed. Counts the row if so, by a copy of the key. */
  def accept(key: AnyRef): Boolean = {
    countOffer()
    // If ties pass, counting another row with the bound's key does not tighten the bound.
    var counts = true
    val needed = !bounded || (valuesPass && limits.forall { case (limit, inclusive) =>
      val c = order.compare(key, limit)
      if (c == 0 && !spec.tiesFree) counts = false
      c < 0 || (inclusive && c == 0)
    })
    if (needed && counts && !passesUncounted()) add(KeyDomain.copied(key))
    needed || drop()
  }

  private def add(key: AnyRef): Unit = {
    keys(count) = key
    count += 1
    bytes += TaskTopK.bytesOf(key)
    // Not before as many new bytes as the best keys have: sorting them for a few new keys would be slow.
    if (count == keys.length || bytes > math.max(TaskTopK.BufferBytes, bestBytes)) {
      flush()
      if (count > keys.length / 2) keys = java.util.Arrays.copyOf(keys, 2 * keys.length)
    }
  }
  private var bytes, bestBytes = 0L

  override protected def key(i: Int): AnyRef = keys(i)

  override protected def sorted(): Int = {
    java.util.Arrays.sort(keys, 0, count, order)
    var kept = 0
    for (i <- 0 until count if !spec.distinct || kept == 0 || order.compare(keys(kept - 1), keys(i)) != 0) {
      keys(kept) = keys(i)
      kept += 1
    }
    // No more of them are needed, and texts may be long.
    java.util.Arrays.fill(keys, math.min(kept, limit), count, null)
    bytes = 0
    bestBytes = keys.iterator.take(math.min(kept, limit)).map(TaskTopK.bytesOf).sum
    kept
  }

  override protected def setValueBound(shared: Option[(AnyRef, Boolean)], own: Option[AnyRef]): Unit =
    limits = shared.toList ++ own.map((_, !spec.tiesFree))
}
