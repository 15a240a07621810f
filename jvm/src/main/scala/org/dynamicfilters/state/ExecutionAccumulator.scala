package org.dynamicfilters.state

import java.io.{ObjectInputStream, ObjectOutputStream}

import org.apache.spark.util.AccumulatorV2

/** Carries what tasks saw to the driver with their results: of successful attempts only, one entry an execution and executor.
  *
  * By execution, because Spark keeps the RDD of a plan that is executed again, and its accumulators with it.
  */
abstract class ExecutionAccumulator[A, B] extends AccumulatorV2[A, B] {
  @transient private var entries = Map.empty[(Long, String), A]
  @transient private var executions: Set[Long] = _

  // Null for a moment where a task is being decoded; the heartbeat's thread asks then, and an exception would end it.
  protected final def kept: Map[(Long, String), A] = Option(entries).getOrElse(Map.empty)

  // An array, because the classes of a map take more bytes in a task's result than what it holds. Heartbeats send it too, while
  // the task may add to it.
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

  override def isZero: Boolean = kept.isEmpty
  override def reset(): Unit = {
    entries = Map.empty
    executions = null
  }

  // Spark's scheduler merges each task's, of thousands of executors: only a new execution is looked for among them.
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

  /** An execution has ended: of its entries only some are kept, the others as one.
    *
    * @param most
    *   as many, with the one of the others
    */
  protected final def together(execution: Long, most: Int)(one: Seq[A] => A): Unit = synchronized {
    val others = kept.filter(_._1._1 == execution).toSeq.sortBy(_._1._2).drop(most - 1)
    if (others.size > 1) {
      val sum = one(others.map(_._2))
      entries = kept.removedAll(others.map(_._1)) + (keyOf(sum) -> sum)
    }
  }

  override def merge(other: AccumulatorV2[A, B]): Unit = other match {
    case o: ExecutionAccumulator[A, B] => o.kept.values.foreach(add)
    case _ =>
  }
}

private object ExecutionAccumulator {

  /** Executions of one plan; older ones' figures are forgotten. */
  val Kept = 16
}
