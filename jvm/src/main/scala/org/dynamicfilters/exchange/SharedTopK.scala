package org.dynamicfilters.exchange

import java.util.PriorityQueue

import scala.collection.mutable

/** The bound of one TopK that all tasks of a process share.
  *
  * Invariants:
  *   - a partition contributes through one attempt, its newest: a contribution replaces the one before, it is never added to
  *     it (contract 5). So every row is counted once;
  *   - the bound only tightens. After a replacement fewer rows may be known; the bound stays, because the rows that made it
  *     exist all the same;
  *   - contributions are cut to the rows that are among the best `limit` of all, so what is forgotten can only make later
  *     bounds looser, never wrong.
  *
  * Memory: at most `limit` keys a running partition, and `limit` in all for those that have ended. Thread-safe; readers of
  * `bound` take no lock.
  */
final class SharedTopK(val spec: TopKSpec) {
  import SharedTopK._

  @volatile private var current: TopKBound = TopKBound.none
  private val owners = mutable.HashMap.empty[Int, Long]
  private val lists = mutable.HashMap.empty[Int, Array[AnyRef]]

  def bound: TopKBound = current

  /** Takes the best keys of the rows that `attempt` of `partition` has handed on so far.
    *
    * @param keys
    *   at most `limit`, best first, null for SQL NULL; not changed afterwards
    */
  def put(partition: Int, attempt: Long, keys: Array[AnyRef]): Outcome = synchronized {
    if (owners.get(partition).exists(_ > attempt)) Outcome.Superseded
    else {
      owners(partition) = attempt
      lists(partition) = keys
      if (lists.valuesIterator.map(_.length.toLong).sum < spec.limit) Outcome.NotFull else tighten()
    }
  }

  /** Merges the sorted contributions up to the `limit`-th row. */
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
    cursors.foreach { c =>
      if (c.at == 0) lists.remove(c.partition)
      else if (c.at < c.keys.length) lists(c.partition) = java.util.Arrays.copyOf(c.keys, c.at)
    }
    val tighter = current.isNone || {
      val c = spec.order.compare(lastKey, current.key)
      c < 0 || (c == 0 && last.partition < current.partition)
    }
    if (tighter) {
      current = TopKBound(current.generation + 1, lastKey, last.partition)
      Outcome.Tightened
    } else Outcome.NotTighter
  }

  /** Keys held, for tests of the memory bound. */
  def held: Int = synchronized(lists.valuesIterator.map(_.length).sum)
}

object SharedTopK {
  private final class Cursor(val partition: Int, val keys: Array[AnyRef]) {
    var at = 0
    def key: AnyRef = keys(at)
  }

  /** What became of a contribution. */
  sealed trait Outcome
  object Outcome {
    case object Tightened extends Outcome
    case object NotTighter extends Outcome

    /** Fewer than `limit` rows are known. */
    case object NotFull extends Outcome

    /** A newer attempt of the partition has contributed already. */
    case object Superseded extends Outcome
  }
}
