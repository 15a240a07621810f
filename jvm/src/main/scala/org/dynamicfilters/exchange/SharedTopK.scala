package org.dynamicfilters.exchange

import java.util.PriorityQueue

import scala.collection.mutable

/** The bound of one TopK that all tasks of a process share.
  *
  * Invariants:
  *   - the heap holds rows that exist, each counted once: a partition contributes through one attempt, and a newer attempt
  *     replaces what an older one gave (contract 5);
  *   - the bound only tightens. After a replacement the heap may be short of rows; the bound stays, because the rows that
  *     made it exist all the same;
  *   - rows that fell out of the heap are forgotten, which can only make later bounds looser, never wrong.
  *
  * Memory: at most `limit` entries. Thread-safe; readers of `bound` take no lock.
  */
final class SharedTopK(val spec: TopKSpec) {
  import SharedTopK._

  @volatile private var current: TopKBound = TopKBound.none
  private val worstFirst: Ordering[Row] = (a: Row, b: Row) => {
    val c = spec.order.compare(b.key, a.key)
    if (c != 0) c else Integer.compare(b.partition, a.partition)
  }
  private val best = new PriorityQueue[Row](math.min(spec.limit, 1024) + 1, worstFirst)
  private val owners = mutable.HashMap.empty[Int, Long]

  def bound: TopKBound = current

  /** Adds keys of rows that `attempt` of `partition` has handed on.
    *
    * @param keys
    *   keys in any order, null for SQL NULL; the first `n` count
    */
  def add(partition: Int, attempt: Long, keys: Array[AnyRef], n: Int): Outcome = synchronized {
    owners.get(partition) match {
      case Some(owner) if owner > attempt => return Outcome.Superseded
      case Some(owner) if owner < attempt =>
        best.removeIf(_.partition == partition)
        owners(partition) = attempt
      case Some(_) =>
      case None => owners(partition) = attempt
    }
    var i = 0
    while (i < n) {
      val row = Row(keys(i), partition)
      if (best.size < spec.limit) best.add(row)
      else if (worstFirst.compare(best.peek, row) < 0) {
        best.poll()
        best.add(row)
      }
      i += 1
    }
    if (best.size < spec.limit) Outcome.NotFull
    else {
      val worst = best.peek
      if (current.isNone || worstFirst.compare(Row(current.key, current.partition), worst) < 0) {
        current = TopKBound(current.generation + 1, worst.key, worst.partition)
        Outcome.Tightened
      } else Outcome.NotTighter
    }
  }
}

object SharedTopK {
  private final case class Row(key: AnyRef, partition: Int)

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
