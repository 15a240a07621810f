package org.dynamicfilters.state

import java.util.{PriorityQueue, TreeSet}

import scala.collection.mutable

/** The best keys of the rows that one attempt of a partition has output so far.
  *
  * @param attempt greater for newer attempts, in the whole application
  * @param keys at most `limit` keys, best first, null for SQL NULL; never changed
  */
final case class Contribution(partition: Int, attempt: Long, keys: Array[AnyRef])

/** Receives the best keys of an attempt: [[TopKState]], or on executors the way to the driver. */
trait ContributionSink {

  /** See [[Contribution]]. */
  def contribute(partition: Int, attempt: Long, keys: Array[AnyRef]): Unit
}

/** The bound of one TopK that all tasks of a process share. The driver of a cluster merges those of executors in one.
  *
  * Invariants:
  *   - a partition contributes through its newest attempt only: a contribution replaces the previous one (contract 5).
  *     So every row is counted once;
  *   - the bound only tightens. It stays after a replacement that knows fewer rows, because the counted rows exist;
  *   - contributions are cut to the best `limit` rows of all. That can make later bounds looser, never wrong.
  *
  * For distinct keys, all partitions and attempts share one set, because a key exists if any of them has seen it. With
  * one list for each partition, a thousand tasks with the same thousand keys would hold a million.
  *
  * Memory: at most `limit` keys, beside those of contributions that are being taken. Thread-safe; readers of `bound`
  * take no lock.
  *
  * @param onChange called after each contribution, by its thread, to send news to the rest of the cluster
  */
final class TopKState(val spec: TopKSpec, onChange: Option[TopKState => Unit] = None) extends ContributionSink {
  import TopKState._

  @volatile private var current: TopKBound = TopKBound.none
  @volatile private var first = 0L
  private val owners = mutable.HashMap.empty[Int, Long]
  private val lists = mutable.HashMap.empty[Int, Array[AnyRef]]
  private var held = 0L
  // For distinct keys: the best ones, whether there are new ones, and the partition and attempt that contributed last.
  private lazy val different = new TreeSet[AnyRef](spec.order)
  private var hasNews = false
  private var contributor = (0, 0L)
  // Partitions with a contribution that was not sent to the cluster yet.
  private val unsent = mutable.HashSet.empty[Int]

  def bound: TopKBound = current

  /** Time of the first bound, in milliseconds since 1970; 0 before. */
  def firstBoundMillis: Long = first

  override def contribute(partition: Int, attempt: Long, keys: Array[AnyRef]): Unit = put(partition, attempt, keys)

  /** As [[contribute]], and returns the effect. */
  def put(partition: Int, attempt: Long, keys: Array[AnyRef]): Outcome =
    putAll(Seq(Contribution(partition, attempt, keys)))

  /** As [[put]], for several partitions at once. */
  def putAll(parts: Seq[Contribution]): Outcome = {
    val outcome = synchronized {
      if (spec.distinct) addDifferent(parts)
      else {
        val taken = parts.count(take)
        if (taken == 0) Outcome.Superseded
        else if (held < spec.limit) Outcome.NotTighter
        else tighten()
      }
    }
    if (outcome != Outcome.Superseded) onChange.foreach(_(this))
    outcome
  }

  // Distinct keys are added instead of replaced.
  private def addDifferent(parts: Seq[Contribution]): Outcome = {
    parts.foreach { c =>
      contributor = (c.partition, c.attempt)
      for (key <- c.keys if different.size < spec.limit || spec.order.compare(key, different.last) < 0) {
        hasNews |= different.add(key)
        if (different.size > spec.limit) different.pollLast()
      }
    }
    held = different.size.toLong
    if (held < spec.limit) Outcome.NotTighter else replaceBy(different.last, contributor._1)
  }

  private def take(c: Contribution): Boolean =
    !owners.get(c.partition).exists(_ > c.attempt) && {
      owners(c.partition) = c.attempt
      set(c.partition, c.keys)
      if (onChange.isDefined) unsent += c.partition
      true
    }

  private def set(partition: Int, keys: Array[AnyRef]): Unit = {
    val before = if (keys.isEmpty) lists.remove(partition) else lists.put(partition, keys)
    held += keys.length - before.fold(0)(_.length)
  }

  /** Contributions that were not sent to the cluster yet, without keys beyond the bound. */
  def takeUnsent(): Seq[Contribution] = synchronized {
    val ofPartitions = unsent.iterator.flatMap(p => lists.get(p).map(Contribution(p, owners(p), _))).toVector
    unsent.clear()
    // All distinct keys again, because messages may be lost.
    val ofAll = Option.when(hasNews)(Contribution(contributor._1, contributor._2, different.toArray))
    hasNews = false
    (ofPartitions ++ ofAll).map(c => c.copy(keys = withinBound(c.keys))).filter(_.keys.nonEmpty)
  }

  private def withinBound(keys: Array[AnyRef]): Array[AnyRef] = {
    val worse = if (current.isNone) -1 else keys.indexWhere(spec.order.compare(_, current.key) > 0)
    java.util.Arrays.copyOf(keys, if (worse < 0) keys.length else worse)
  }

  /** Takes over a bound from the cluster, if it is tighter. */
  def adopt(bound: TopKBound): Outcome = synchronized {
    if (bound.isNone) Outcome.NotTighter else replaceBy(bound.key, bound.partition, bound.generation)
  }

  /** Replaces the bound, if this one is tighter. */
  private def replaceBy(key: AnyRef, partition: Int, generation: Long = 0): Outcome =
    if (!isTighter(key, partition)) Outcome.NotTighter
    else {
      if (first == 0L) first = System.currentTimeMillis()
      current = TopKBound(math.max(generation, current.generation + 1), key, partition)
      Outcome.Tightened
    }

  private def isTighter(key: AnyRef, partition: Int): Boolean = current.isNone || {
    val c = spec.order.compare(key, current.key)
    c < 0 || (c == 0 && !spec.distinct && partition < current.partition)
  }

  /** Merges the sorted contributions up to the `limit`-th row, which is the new bound. */
  private def tighten(): Outcome = {
    val heads = new PriorityQueue[Cursor](
      lists.size,
      (a: Cursor, b: Cursor) => {
        val c = spec.order.compare(a.key, b.key)
        if (c != 0) c else Integer.compare(a.partition, b.partition)
      }
    )
    val cursors = lists.iterator.collect { case (p, keys) if keys.nonEmpty => new Cursor(p, keys) }.toArray
    cursors.foreach(heads.add)
    var last: Cursor = null
    var lastKey: AnyRef = null
    var taken = 0
    while (taken < spec.limit) {
      last = heads.poll()
      lastKey = last.key
      last.at += 1
      if (last.at < last.keys.length) heads.add(last)
      taken += 1
    }
    cursors.foreach(c => if (c.at < c.keys.length) set(c.partition, java.util.Arrays.copyOf(c.keys, c.at)))
    replaceBy(lastKey, last.partition)
  }

  /** Keys held, for tests of the memory bound. */
  def keysHeld: Long = synchronized(held)
}

object TopKState {

  private final class Cursor(val partition: Int, val keys: Array[AnyRef]) {
    var at = 0
    def key: AnyRef = keys(at)
  }

  /** The effect of a contribution. */
  sealed trait Outcome
  object Outcome {
    case object Tightened extends Outcome

    /** The bound stays, or there is none yet, because fewer than `limit` rows are known. */
    case object NotTighter extends Outcome

    /** A newer attempt of the partition has contributed already. */
    case object Superseded extends Outcome
  }
}
