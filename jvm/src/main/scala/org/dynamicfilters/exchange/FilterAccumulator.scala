package org.dynamicfilters.exchange

import org.apache.spark.util.AccumulatorV2

/** The state of one filter as the tasks of one executor last saw it.
  *
  * @param generation
  *   how often the bound was tightened there
  * @param bound
  *   the bound as an encoded filter, null where there is none
  * @param dropped
  *   rows that the producer itself dropped
  */
final case class FilterSeen(executorId: String, generation: Long, bound: Array[Byte], dropped: Long)

/** Carries [[FilterSeen]] to the driver: one entry an executor. */
final class FilterAccumulator extends AccumulatorV2[FilterSeen, Map[String, FilterSeen]] {
  private var seen = Map.empty[String, FilterSeen]

  override def isZero: Boolean = seen.isEmpty
  override def copy(): FilterAccumulator = {
    val c = new FilterAccumulator
    c.seen = seen
    c
  }
  override def reset(): Unit = seen = Map.empty
  override def add(s: FilterSeen): Unit = synchronized {
    val merged = seen.get(s.executorId) match {
      case Some(old) =>
        val newer = if (s.generation >= old.generation) s else old
        newer.copy(dropped = s.dropped + old.dropped)
      case None => s
    }
    seen += s.executorId -> merged
  }
  override def merge(other: AccumulatorV2[FilterSeen, Map[String, FilterSeen]]): Unit = other match {
    case o: FilterAccumulator => o.seen.values.foreach(add)
    case _ =>
  }
  override def value: Map[String, FilterSeen] = seen
}
