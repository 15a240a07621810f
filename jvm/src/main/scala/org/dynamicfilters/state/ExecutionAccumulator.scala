package org.dynamicfilters.state

import java.io.{ObjectInputStream, ObjectOutputStream}

import org.apache.spark.util.AccumulatorV2

/** Carries reports of successful attempts to the driver, merged by execution and executor.
  *
  * By execution, because Spark keeps the RDD of a plan, with its accumulators, for the plan's next execution.
  */
abstract class ExecutionAccumulator[A] extends AccumulatorV2[A, Seq[A]] {
  @transient private var entries = Map.empty[(Long, String), A]
  @transient private var executions: Set[Long] = _

  // Null for a moment while a task is deserialized. The heartbeat thread may read it then, and must not fail.
  protected final def kept: Map[(Long, String), A] = Option(entries).getOrElse(Map.empty)

  // As an array, because the classes of a map take more bytes than its contents. Synchronized, because heartbeats send
  // it while the task adds to it.
  private def writeObject(out: ObjectOutputStream): Unit = synchronized {
    out.defaultWriteObject()
    out.writeObject(kept.values.toArray[Any])
  }

  private def readObject(in: ObjectInputStream): Unit = {
    in.defaultReadObject()
    entries = in.readObject().asInstanceOf[Array[Any]].iterator.map(_.asInstanceOf[A]).map(a => keyOf(a) -> a).toMap
  }

  /** SQL execution and executor. */
  protected def keyOf(a: A): (Long, String)
  protected def merged(before: Option[A], a: A): A

  /** An accumulator of the same kind without entries. */
  protected def fresh: ExecutionAccumulator[A]

  override def copy(): ExecutionAccumulator[A] = {
    val c = fresh
    kept.values.foreach(c.add)
    c
  }
  // The copy for tasks.
  override def copyAndReset(): ExecutionAccumulator[A] = fresh
  override def value: Seq[A] = kept.values.toSeq
  override def isZero: Boolean = kept.isEmpty
  override def reset(): Unit = {
    entries = Map.empty
    executions = null
  }

  // Looks for old executions only if there is a new one, because Spark's scheduler merges each task's accumulator.
  override def add(a: A): Unit = synchronized {
    val key = keyOf(a)
    entries = kept + (key -> merged(kept.get(key), a))
    if (executions == null || !executions(key._1)) {
      executions = kept.keysIterator.map(_._1).toSet
      if (executions.size > ExecutionAccumulator.Kept) {
        val oldest = executions.min
        entries = kept.filterNot(_._1._1 == oldest)
        executions -= oldest
      }
    }
  }

  /** Merges entries of an ended execution into one, so that at most `most` remain. */
  protected final def together(execution: Long, most: Int)(one: Seq[A] => A): Unit = synchronized {
    val others = kept.filter(_._1._1 == execution).toSeq.sortBy(_._1._2).drop(most - 1)
    if (others.size > 1) {
      val sum = one(others.map(_._2))
      entries = kept.removedAll(others.map(_._1)) + (keyOf(sum) -> sum)
    }
  }

  override def merge(other: AccumulatorV2[A, Seq[A]]): Unit = other.value.foreach(add)
}

private object ExecutionAccumulator {

  /** Number of executions of one plan whose entries are kept. */
  val Kept = 16
}

/** The bound of a TopK that the tasks of one executor saw last.
  *
  * @param executionId Spark's SQL execution, -1 if there is none
  * @param generation number of times that the bound was tightened there
  * @param bound the bound as an encoded filter, null if there is none
  */
final case class TopKSeen(
    executionId: Long,
    executorId: String,
    generation: Long,
    bound: Array[Byte],
    firstMillis: Long = 0
)

/** Carries [[TopKSeen]] to the driver. */
final class TopKAccumulator extends ExecutionAccumulator[TopKSeen] {
  override protected def keyOf(s: TopKSeen): (Long, String) = (s.executionId, s.executorId)
  override protected def merged(before: Option[TopKSeen], s: TopKSeen): TopKSeen =
    before.filter(_.generation > s.generation).getOrElse(s)
  override protected def fresh: TopKAccumulator = new TopKAccumulator
}
