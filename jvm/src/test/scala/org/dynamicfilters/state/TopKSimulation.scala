package org.dynamicfilters.state

import java.util.Random

import scala.collection.mutable

import org.dynamicfilters.filter.ValueFilter

/** A row of a simulated partition: its first sort key, null for SQL NULL, and the rest of its order. */
final case class SimulatedRow(key: AnyRef, second: Int)

/** Tasks of one TopK that run in turns: attempts fail after they contributed and are retried with their rows in another
  * order, copies run beside them, and attempts that lost go on contributing.
  *
  * @param processes what the tasks of each executor share; an attempt runs on any of them
  * @param meanwhile called between the turns
  */
final class TopKSimulation(
    spec: TopKSpec,
    partitions: IndexedSeq[IndexedSeq[SimulatedRow]],
    seed: Long,
    processes: IndexedSeq[TopKState],
    meanwhile: () => Unit = () => ()
) {
  private val random = new Random(seed)
  private var attempts = 0L
  private val running = mutable.ArrayBuffer.empty[Attempt]
  private val results = mutable.HashMap.empty[Int, Seq[SimulatedRow]]
  private val lastBounds = Array.fill(processes.size)(TopKBound.none)

  private final class Attempt(val partition: Int, mayFail: Boolean) {
    attempts += 1
    private val task = TaskTopK(processes(random.nextInt(processes.size)), partition, attempts)
    private val rows = shuffled(partitions(partition))
    private val handedOn = mutable.ArrayBuffer.empty[SimulatedRow]
    private var at = 0
    // What the scan dropped rows by since it last looked.
    private var scan: ValueFilter = ValueFilter.All
    private val failsAt = if (mayFail && random.nextInt(3) == 0) random.nextInt(rows.size + 1) else -1

    /** @return whether the attempt has ended */
    def step(): Boolean = {
      random.nextInt(8) match {
        case 0 => scan = task.filter()
        case 1 => task.flush()
        case 2 => task.refresh()
        case _ =>
      }
      if (at == failsAt) {
        // Its successor runs; the attempt itself may be dead, or cut off and still at work.
        running += new Attempt(partition, mayFail = random.nextBoolean())
        if (random.nextBoolean()) return true
      }
      if (at == rows.size) {
        task.flush()
        if (!results.contains(partition)) results(partition) = handedOn.toSeq
        true
      } else {
        val row = rows(at)
        at += 1
        if (scan.passes(row.key) && taken(row.key)) handedOn += row
        false
      }
    }

    private def taken(key: AnyRef): Boolean =
      if (key == null) task.acceptNull()
      else
        task match {
          case t: LongTaskTopK => t.accept(key.asInstanceOf[java.lang.Long])
          case t: ObjectTaskTopK => t.accept(key)
        }
  }

  private def shuffled(rows: IndexedSeq[SimulatedRow]): IndexedSeq[SimulatedRow] = {
    val copy = new java.util.ArrayList[SimulatedRow]()
    rows.foreach(copy.add)
    java.util.Collections.shuffle(copy, random)
    IndexedSeq.tabulate(rows.size)(copy.get)
  }

  private val whole: Ordering[SimulatedRow] = (a, b) => {
    val c = spec.order.compare(a.key, b.key)
    if (c != 0 || spec.tiesFree) c else Integer.compare(a.second, b.second)
  }

  /** Of different keys all rows of the best ones. */
  private def best(rows: Iterable[SimulatedRow]): Seq[SimulatedRow] = {
    val sorted = rows.toSeq.sorted(whole)
    if (!spec.distinct) sorted.take(spec.limit)
    else sorted.takeWhile(r => keysBefore(sorted, r.key) < spec.limit)
  }

  private def keysBefore(rows: Iterable[SimulatedRow], key: AnyRef): Int =
    differentKeys(rows.iterator.map(_.key).filter(spec.order.compare(_, key) < 0))

  private def differentKeys(keys: Iterator[AnyRef]): Int = {
    val seen = new java.util.TreeSet[AnyRef](spec.order)
    keys.foreach(seen.add)
    seen.size
  }

  /** Fails where a bound gets looser or its generation goes back. */
  private def checkBounds(): Unit = processes.indices.foreach { i =>
    val (now, lastBound) = (processes(i).bound, lastBounds(i))
    if (now ne lastBound) {
      assert(now.generation > lastBound.generation, s"$lastBound was followed by $now")
      if (processes.size == 1) assert(now.generation == lastBound.generation + 1)
      partitions.indices.foreach { p =>
        assert(now.filterFor(p, spec).implies(lastBound.filterFor(p, spec)), s"$now does not imply $lastBound")
      }
      val notWorse = partitions.iterator.flatten.map(_.key).filter(spec.order.compare(_, now.key) <= 0)
      assert((if (spec.distinct) differentKeys(notWorse) else notWorse.size) >= spec.limit)
      lastBounds(i) = now
    }
  }

  def run(): Unit = {
    val waiting = mutable.Queue.from(shuffledPartitions)
    while (waiting.nonEmpty || running.nonEmpty) {
      if (waiting.nonEmpty && (running.isEmpty || random.nextInt(4) == 0)) {
        val p = waiting.dequeue()
        running += new Attempt(p, mayFail = true)
        // A speculative copy.
        if (random.nextInt(5) == 0) running += new Attempt(p, mayFail = false)
      }
      val i = random.nextInt(running.size)
      val attempt = running(i)
      // In bursts: a task sees many rows before the next one gets its turn.
      var left = random.nextInt(6) + 1
      while (left > 0) {
        left -= 1
        if (attempt.step()) {
          running -= attempt
          left = 0
        }
        checkBounds()
      }
      meanwhile()
    }
    val expected = best(partitions.flatten)
    val actual = best(partitions.indices.flatMap(results))
    val same = expected.size == actual.size && expected.zip(actual).forall { case (e, a) => whole.compare(e, a) == 0 }
    assert(same, s"expected $expected, but it gave $actual, seed $seed")
  }

  private def shuffledPartitions: Seq[Int] = {
    val all = new java.util.ArrayList[Integer]()
    partitions.indices.foreach(all.add(_))
    java.util.Collections.shuffle(all, random)
    partitions.indices.map(all.get(_).intValue)
  }
}
