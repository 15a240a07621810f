package org.dynamicfilters.state

import org.apache.spark.util.AccumulatorV2

/** Carries what tasks saw to the driver with their results: of successful attempts only, one entry an execution and executor.
  *
  * By execution, because Spark keeps the RDD of a plan that is executed again, and its accumulators with it.
  */
abstract class ExecutionAccumulator[A, B] extends AccumulatorV2[A, B] {
  protected var kept = Map.empty[(Long, String), A]

  /** SQL execution and executor. */
  protected def keyOf(a: A): (Long, String)
  protected def merged(before: Option[A], a: A): A

  override def isZero: Boolean = kept.isEmpty
  override def reset(): Unit = kept = Map.empty
  override def add(a: A): Unit = synchronized {
    val key = keyOf(a)
    kept += key -> merged(kept.get(key), a)
    val executions = kept.keysIterator.map(_._1).toSet
    if (executions.size > ExecutionAccumulator.Kept) kept = kept.filterNot(_._1._1 == executions.min)
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
