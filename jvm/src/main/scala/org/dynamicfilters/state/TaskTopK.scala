package org.dynamicfilters.state

import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{LongDomain, ObjectDomain, ValueFilter}

/** One task attempt's part in a TopK: it counts the rows that the attempt hands on and knows which rows it still needs.
  *
  * Rows are counted in a buffer that is sorted when it is full or when the scan of the same task asks for the filter. The best
  * keys are shared now and then, so the lock of [[TopKState]] is taken once for many rows.
  *
  * Beside the shared bound an attempt has one of its own, strict where ties are free: once it has handed on `limit` rows that are not worse
  * than L, it needs no further row with key L, because those rows come from the same attempt, however often it is retried.
  * That is what makes a key with few distinct values skip whole row groups.
  *
  * Rows are counted in one thread. Another one that asks for the filter gets it as of the last time that what was counted was
  * sorted: Spark 4.3 may let one read what a Python function is given (`spark.python.udf.pipelined.enabled`). `keys` of SQL NULL
  * are counted only where nulls sort first; else they are the worst rows and not counting them only leaves the bound looser.
  */
abstract class TaskTopK(val shared: TopKState, val partition: Int, val attempt: Long, sink: ContributionSink) {
  protected val spec: TopKSpec = shared.spec
  protected val limit: Int = spec.limit
  protected val capacity: Int = math.max(TaskTopK.BufferRows, limit)
  protected var nulls = 0
  private var pendingNulls = 0
  private var seen: TopKBound = TopKBound.none
  private var pinned: Option[TopKBound] = None
  private var changed = false
  private var published = System.nanoTime() - TaskTopK.ShareEveryNanos
  private var pause = TaskTopK.ShareEveryNanos

  // The thread that counts. Another one that sees an old value takes itself for none that counts, which it is.
  private var counting: Thread = _
  private val startedIn = Thread.currentThread

  // For other threads: whether one has asked, and the attempt's own bound.
  @volatile private var askedElsewhere = false
  @volatile private var ownForOthers: Option[AnyRef] = None

  /** Rows that were offered and not needed. */
  var dropped = 0L

  // What passes, beside values within the subclass's bound.
  protected var bounded = false
  protected var valuesPass = true
  protected var nullsPass = true

  // There may be fewer different keys than `limit` in all. Then counting leads nowhere, and costs more than the row is
  // worth: while nothing new is found, few rows are counted. A row that is not counted only leaves the bound looser.
  private var leftOut, between = 0

  /** Whether a row that is needed is handed on without being counted. */
  final protected def passesUncounted(): Boolean = between > 0 && {
    leftOut += 1
    if (leftOut > between) leftOut = 0
    leftOut != 0
  }

  /** Tells, where different keys are looked for, whether the rows that were counted last held one that was not known. */
  final protected def found(news: Boolean): Unit =
    between = if (news) 0 else StepTracker.FirstPause - 1

  /** The bound of this attempt: the key of its `limit`-th best row, if it has handed on as many. */
  protected def ownWorst: Option[AnyRef]

  /** Sorts the buffer into the attempt's best keys; whether there was anything in it. */
  protected def drainBuffer(): Boolean

  /** The attempt's at most n best keys, best first, without NULL; a fresh array. */
  protected def bestKeys(n: Int): Array[AnyRef]
  protected def setValueBound(shared: Option[(AnyRef, Boolean)], own: Option[AnyRef]): Unit

  /** Whether a row whose key is NULL is needed; counts it if so. */
  final def acceptNull(): Boolean = {
    nullsOffered += 1
    if ((nullsOffered & (TaskTopK.RefreshRows - 1)) == 1) look()
    if (!nullsPass) { dropped += 1; false }
    else {
      if (spec.nullsFirst) {
        pendingNulls += 1
        if (pendingNulls >= capacity) flush()
      }
      true
    }
  }
  private var nullsOffered = 0

  /** Sorts what was counted into the attempt's best, shares them unless that was done a moment ago, and takes over the newest
    * bound.
    */
  final def flush(): Unit = {
    changed |= drainBuffer() | pendingNulls > 0
    nulls = math.min(nulls + pendingNulls, if (spec.distinct) 1 else limit)
    pendingNulls = 0
    if (changed && System.nanoTime() - published >= pause) publish()
    refresh()
    if (askedElsewhere) {
      askedElsewhere = false
      ownForOthers = ownWorst
    }
  }

  /** Shares the attempt's best keys at once. */
  final def publish(): Unit = if (changed) {
    val start = System.nanoTime()
    val values = bestKeys(limit - nulls)
    val keys = new Array[AnyRef](nulls + values.length)
    System.arraycopy(values, 0, keys, nulls, values.length)
    sink.contribute(partition, attempt, keys)
    changed = false
    published = System.nanoTime()
    // However large the limit, sharing takes a small part of the task's time.
    pause = math.max(TaskTopK.ShareEveryNanos, ((published - start) / StepTracker.ShareOfWork).toLong)
  }

  /** From now on this bound stands in place of the shared one: where every attempt of the partition must drop the same rows. The
    * attempt's own bound is a matter of its rows only.
    */
  final def pin(bound: TopKBound): Unit = {
    pinned = Some(bound)
    refresh()
  }

  /** Done for the first row and now and then, in the thread that counts. */
  final protected def look(): Unit = {
    if (counting == null) counting = Thread.currentThread
    if (askedElsewhere) flush() else refresh()
  }

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
      // A bound that is NULL: with nulls first no value is needed; with nulls last it cannot arise, nulls are not counted.
      valuesPass = !sharedNull && !ownNull
      nullsPass = spec.nullsFirst && !(ownNull && spec.tiesFree) && !(sharedNull && !inclusive)
      setValueBound(if (newest.isNone || sharedNull) None else Some((newest.key, inclusive)), own.filter(_ != null))
    }
  }

  /** What this task still needs, after everything it handed on so far.
    *
    * @param own
    *   whether the attempt's own bound counts: only for a scan that is sure to feed this very computation
    */
  final def filter(own: Boolean = true): ValueFilter =
    if (counting eq Thread.currentThread) {
      flush()
      within(seen, if (own) ownWorst else None)
    } else if (pinned.isEmpty) {
      askedElsewhere = true
      within(newestShared(), if (own) ownForOthers else None)
    }
    // Where all attempts must hand on the same rows, in the same order, it must not matter when another thread asks. It may
    // have begun before there was a bound to be pinned.
    else if (startedIn eq Thread.currentThread) within(newestShared(), None)
    else ValueFilter.All

  private def within(bound: TopKBound, own: Option[AnyRef]): ValueFilter = {
    val fromShared = bound.filterFor(partition, spec)
    own.fold(fromShared)(k => fromShared.and(spec.atLeastAsGoodAs(k, inclusive = !spec.tiesFree)))
  }

  /** Generation of the shared bound that [[filter]] last used. */
  final def generation: Long = seen.generation
}

object TaskTopK {
  private[state] val none = Array.empty[AnyRef]

  /** Rows counted before the lock is taken. */
  private[state] val BufferRows = 1024

  /** The same of long keys: a thousand texts of 2 MB are 2 GB, where stock Spark keeps the one that is the maximum. */
  private[state] val BufferBytes = 1024 * 1024L

  private[state] def bytesOf(key: AnyRef): Long = key match {
    case s: UTF8String => 32L + s.numBytes
    case b: Array[Byte] => 32L + b.length
    case _ => 32L
  }

  /** An attempt shares its keys at most this often, and spends a small share of its time on it. */
  private[state] val ShareEveryNanos = 5L * 1000 * 1000

  /** How often, in rows offered, an attempt looks at the shared bound. A power of two. */
  private[state] val RefreshRows = 256

  def apply(shared: TopKState, partition: Int, attempt: Long): TaskTopK = apply(shared, partition, attempt, shared)

  /** @param sink
    *   what leads to `shared`
    */
  def apply(shared: TopKState, partition: Int, attempt: Long, sink: ContributionSink): TaskTopK =
    shared.spec.domain match {
      case d: LongDomain => new LongTaskTopK(shared, d, partition, attempt, sink)
      case d: ObjectDomain => new ObjectTaskTopK(shared, d, partition, attempt, sink)
    }
}

/** Keys of at most eight bytes: compared as longs, smaller is better (descending order flips the bits). */
final class LongTaskTopK(
    shared: TopKState,
    val domain: LongDomain,
    partition: Int,
    attempt: Long,
    sink: ContributionSink
) extends TaskTopK(shared, partition, attempt, sink) {
  private val flip = if (spec.ascending) 0L else -1L
  private val buffer = new Array[Long](capacity)
  private var buffered = 0
  private var best = Array.emptyLongArray
  // A value passes if its encoded form is at most this.
  private var maxEncoded = Long.MaxValue
  private var tiesPass = false
  private var offered = 0

  /** Whether a row with this key is needed; counts it if so. */
  def accept(key: Long): Boolean = {
    offered += 1
    if ((offered & (TaskTopK.RefreshRows - 1)) == 1) look()
    val encoded = key ^ flip
    if (bounded && (!valuesPass || encoded > maxEncoded)) { dropped += 1; false }
    // Where ties pass, one row more with the bound's own key makes no better bound, and often there are many.
    else if (tiesPass && encoded == maxEncoded) true
    else if (passesUncounted()) true
    else {
      buffer(buffered) = encoded
      buffered += 1
      if (buffered == buffer.length) flush()
      true
    }
  }

  override protected def ownWorst: Option[AnyRef] =
    if (nulls >= limit) Some(null)
    else if (nulls + best.length >= limit) Some(java.lang.Long.valueOf(best(limit - nulls - 1) ^ flip))
    else None

  override protected def drainBuffer(): Boolean = {
    val any = buffered > 0
    if (any) {
      java.util.Arrays.sort(buffer, 0, buffered)
      val merged = new Array[Long](math.min(limit, best.length + buffered))
      var b, n, m = 0
      while (m < merged.length && (b < best.length || n < buffered)) {
        val next =
          if (n >= buffered || (b < best.length && best(b) <= buffer(n))) { b += 1; best(b - 1) }
          else { n += 1; buffer(n - 1) }
        if (!spec.distinct || m == 0 || merged(m - 1) != next) { merged(m) = next; m += 1 }
      }
      if (spec.distinct) found(!java.util.Arrays.equals(best, 0, best.length, merged, 0, m))
      best = if (m == merged.length) merged else java.util.Arrays.copyOf(merged, m)
      buffered = 0
    }
    any
  }

  override protected def bestKeys(n: Int): Array[AnyRef] =
    Array.tabulate[AnyRef](math.min(n, best.length))(i => java.lang.Long.valueOf(best(i) ^ flip))

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

/** Strings, binaries and wide decimals. */
final class ObjectTaskTopK(
    shared: TopKState,
    val domain: ObjectDomain,
    partition: Int,
    attempt: Long,
    sink: ContributionSink
) extends TaskTopK(shared, partition, attempt, sink) {
  private val order = spec.order
  private val buffer = new Array[AnyRef](capacity)
  private var buffered = 0
  private var best = TaskTopK.none
  private var limits: List[(AnyRef, Boolean)] = Nil
  private var offered = 0

  /** Whether the row that [[wants]] was last asked for has to be counted: where ties pass, one more with the bound's own key
    * makes no better bound.
    */
  var counts = true

  /** Whether a row with this key is needed. The key is not kept: call [[count]] with a copy if so, unless [[counts]] is false. */
  def wants(key: AnyRef): Boolean = {
    offered += 1
    if ((offered & (TaskTopK.RefreshRows - 1)) == 1) look()
    counts = true
    val needed = !bounded || (valuesPass && limits.forall { case (limit, inclusive) =>
      val c = order.compare(key, limit)
      if (c == 0 && !spec.tiesFree) counts = false
      c < 0 || (inclusive && c == 0)
    })
    if (needed && counts && passesUncounted()) counts = false
    if (!needed) dropped += 1
    needed
  }

  /** Counts a row that is handed on. The key is kept, so it must not be changed any more. */
  def count(key: AnyRef): Unit = {
    buffer(buffered) = key
    buffered += 1
    bytes += TaskTopK.bytesOf(key)
    // At most as many as the best ones have, so that these are not merged again and again for a few new ones.
    if (buffered == buffer.length || bytes > math.max(TaskTopK.BufferBytes, bestBytes)) flush()
  }
  private var bytes, bestBytes = 0L

  override protected def ownWorst: Option[AnyRef] =
    if (nulls >= limit) Some(null)
    else if (nulls + best.length >= limit) Some(best(limit - nulls - 1))
    else None

  override protected def drainBuffer(): Boolean = {
    val any = buffered > 0
    if (any) {
      java.util.Arrays.sort(buffer, 0, buffered, order)
      val merged = new Array[AnyRef](math.min(limit, best.length + buffered))
      var b, n, m = 0
      while (m < merged.length && (b < best.length || n < buffered)) {
        val next =
          if (n >= buffered || (b < best.length && order.compare(best(b), buffer(n)) <= 0)) { b += 1; best(b - 1) }
          else { n += 1; buffer(n - 1) }
        if (!spec.distinct || m == 0 || order.compare(merged(m - 1), next) != 0) { merged(m) = next; m += 1 }
      }
      if (spec.distinct) found(!java.util.Arrays.equals(best, 0, best.length, merged, 0, m))
      best = if (m == merged.length) merged else java.util.Arrays.copyOf(merged, m)
      java.util.Arrays.fill(buffer, 0, buffered, null)
      buffered = 0
      bytes = 0
      bestBytes = best.iterator.map(TaskTopK.bytesOf).sum
    }
    any
  }

  override protected def bestKeys(n: Int): Array[AnyRef] = java.util.Arrays.copyOf(best, math.min(n, best.length))

  override protected def setValueBound(shared: Option[(AnyRef, Boolean)], own: Option[AnyRef]): Unit =
    limits = shared.toList ++ own.map((_, !spec.tiesFree))
}
