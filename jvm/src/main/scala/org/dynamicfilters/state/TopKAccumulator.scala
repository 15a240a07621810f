package org.dynamicfilters.state

/** The bound of a TopK that the tasks of one executor saw last.
  *
  * @param executionId
  *   Spark's SQL execution, -1 if there is none
  * @param generation
  *   number of times that the bound was tightened there
  * @param bound
  *   the bound as an encoded filter, null if there is none
  * @param firstMillis
  *   see [[TopKState.firstBoundMillis]]
  */
final case class TopKSeen(
    executionId: Long,
    executorId: String,
    generation: Long,
    bound: Array[Byte],
    firstMillis: Long = 0
)

/** Carries [[TopKSeen]] to the driver. */
final class TopKAccumulator extends ExecutionAccumulator[TopKSeen, Seq[TopKSeen]] {
  override protected def keyOf(s: TopKSeen): (Long, String) = (s.executionId, s.executorId)
  override protected def merged(before: Option[TopKSeen], s: TopKSeen): TopKSeen =
    before.filter(_.generation > s.generation).getOrElse(s)
  override def copy(): TopKAccumulator = {
    val c = new TopKAccumulator
    kept.values.foreach(c.add)
    c
  }
  override def value: Seq[TopKSeen] = kept.values.toSeq
}
