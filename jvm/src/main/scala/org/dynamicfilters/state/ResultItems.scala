package org.dynamicfilters.state

import org.apache.spark.util.AccumulatorV2

/** Carries items from tasks to the driver with their results.
  *
  * An accumulator instead of a message, because it comes from successful attempts only, and arrives before Spark
  * registers their map outputs. Its bytes count towards Spark's limit for task results.
  *
  * @param take takes the items of one task on the driver. Must only store, because Spark's scheduler calls it. Null in
  *   tasks
  */
final class ResultItems[A](@transient private val take: A => Unit) extends AccumulatorV2[A, Seq[A]] {
  private var items = Vector.empty[A]

  override def isZero: Boolean = value.isEmpty
  override def copy(): ResultItems[A] = {
    val c = new ResultItems[A](take)
    c.items = items
    c
  }
  // The copy for tasks.
  override def copyAndReset(): ResultItems[A] = new ResultItems[A](null)
  override def reset(): Unit = items = Vector.empty
  override def add(item: A): Unit = items :+= item
  override def merge(other: AccumulatorV2[A, Seq[A]]): Unit =
    if (take == null) items ++= other.value else other.value.foreach(take)
  // Null for a moment while a task is deserialized. The heartbeat thread may read it then, and must not fail.
  override def value: Seq[A] = Option(items).getOrElse(Vector.empty)
}
