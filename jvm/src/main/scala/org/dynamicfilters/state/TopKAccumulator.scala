package org.dynamicfilters.state

import org.apache.spark.util.AccumulatorV2

/** The state of one filter as the tasks of one executor last saw it.
  *
  * @param executionId
  *   Spark's SQL execution, -1 where there is none
  * @param generation
  *   how often the bound was tightened there
  * @param bound
  *   the bound as an encoded filter, null where there is none
  */
final case class TopKSeen(
    executionId: Long,
    executorId: String,
    generation: Long,
    bound: Array[Byte]
)

/** Carries [[TopKSeen]] to the driver: one entry an execution and executor.
  *
  * By execution, because Spark keeps the RDD of a plan that is executed again, and this accumulator with it.
  */
final class TopKAccumulator extends AccumulatorV2[TopKSeen, Seq[TopKSeen]] {
  private var seen = Map.empty[(Long, String), TopKSeen]

  override def isZero: Boolean = seen.isEmpty
  override def copy(): TopKAccumulator = {
    val c = new TopKAccumulator
    c.seen = seen
    c
  }
  override def reset(): Unit = seen = Map.empty
  override def add(s: TopKSeen): Unit = synchronized {
    val key = (s.executionId, s.executorId)
    if (seen.get(key).forall(_.generation <= s.generation)) seen += key -> s
    val executions = seen.keysIterator.map(_._1).toSet
    if (executions.size > TopKAccumulator.ExecutionsKept) seen = seen.filterNot(_._1._1 == executions.min)
  }
  override def merge(other: AccumulatorV2[TopKSeen, Seq[TopKSeen]]): Unit = other match {
    case o: TopKAccumulator => o.seen.values.foreach(add)
    case _ =>
  }
  override def value: Seq[TopKSeen] = seen.values.toSeq
}

object TopKAccumulator {

  /** Of one plan; older ones' figures are forgotten. */
  val ExecutionsKept = 16
}
