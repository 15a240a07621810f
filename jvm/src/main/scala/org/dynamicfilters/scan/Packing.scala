package org.dynamicfilters.scan

import scala.collection.mutable

import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.state.TopKSpec

/** Distributes splits to tasks. Used by [[SplitChooser]] and [[SourceChooser]]. */
private[scan] object Packing {

  /** Distributes the remaining splits: best first under a TopK; as planned if nothing was left out; else over as many
    * tasks as possible.
    *
    * @param weight
    *   bytes plus the cost of opening a file, as Spark counts (`spark.sql.files.openCostInBytes`). Without that cost,
    *   twenty thousand small files became one task
    * @param isSkipped
    *   whether the task will probably skip the split, which then weighs as much as opening a file
    */
  def deal[T](planned: Seq[Seq[T]], kept: Seq[T], orders: Seq[(Int, TopKSpec)], tasks: SplitChooser.Tasks)(
      weight: T => Long,
      bounds: (T, Int) => ColumnBounds,
      isSkipped: T => Boolean = (_: T) => false
  ): Seq[Seq[T]] = {
    val known = orders.filter { case (c, _) => kept.exists(bounds(_, c) != ColumnBounds.unknown) }
    val weighed = kept.map(t => t -> (if (isSkipped(t)) tasks.openCost else weight(t)))
    // No task gets more than the largest planned one.
    lazy val largest = planned.iterator.map(_.iterator.map(weight).sum).maxOption.getOrElse(0L)
    if (known.nonEmpty) pack(BestFirst.sort(weighed, known)((t, c) => bounds(t._1, c)), largest)
    else if (kept.size == planned.iterator.map(_.size).sum && !kept.exists(isSkipped)) planned
    else pack(weighed, math.min(largest, weighed.iterator.map(_._2).sum / math.max(tasks.atLeast, 1) + 1))
  }

  /** Fills tasks in the given order up to the limit; each task gets at least one split. */
  private def pack[T](weighed: Seq[(T, Long)], limit: Long): Seq[Seq[T]] = {
    val packed = mutable.ArrayBuffer.empty[mutable.ArrayBuffer[T]]
    var size = 0L
    weighed.foreach { case (t, weight) =>
      if (packed.isEmpty || size + weight > limit) {
        packed += mutable.ArrayBuffer.empty
        size = 0L
      }
      packed.last += t
      size += weight
    }
    packed.map(_.toSeq).toSeq
  }
}
