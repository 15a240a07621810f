package org.dynamicfilters.state

import org.apache.spark.util.AccumulatorV2

/** Carries what tasks have to say to the driver, with their results.
  *
  * An accumulator rather than a message: it comes from successful attempts only, and has come before Spark registers their map
  * outputs. Its bytes count as part of task results, so they have to be few.
  *
  * @param take
  *   takes the items of one task, on the scheduler's thread: it only stores. Of the driver alone; null in a task
  */
final class ResultItems[A](@transient private val take: A => Unit) extends AccumulatorV2[A, Seq[A]] {
  private var items = Vector.empty[A]

  override def isZero: Boolean = value.isEmpty
  override def copy(): ResultItems[A] = {
    val c = new ResultItems[A](take)
    c.items = items
    c
  }
  // What a task gets: without what is the driver's.
  override def copyAndReset(): ResultItems[A] = new ResultItems[A](null)
  override def reset(): Unit = items = Vector.empty
  override def add(item: A): Unit = items :+= item
  override def merge(other: AccumulatorV2[A, Seq[A]]): Unit =
    if (take == null) items ++= other.value else other.value.foreach(take)
  // Null for a moment where a task is being decoded; the heartbeat's thread asks then, and an exception would end it.
  override def value: Seq[A] = Option(items).getOrElse(Vector.empty)
}
