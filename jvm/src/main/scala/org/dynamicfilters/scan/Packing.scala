package org.dynamicfilters.scan

import scala.collection.mutable

import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.state.TopKSpec

/** Distributes splits to tasks. Used by [[SplitChooser]] and [[SourceChooser]]. */
private[scan] object Packing {

  /** Distributes the remaining splits: best first under a TopK; as planned if nothing was left out; else over as many
    * tasks as possible.
    *
    * @param planned
    *   the planned splits by task
    * @param kept
    *   the remaining splits
    * @param weight
    *   bytes plus the cost of opening a file, as Spark counts (`spark.sql.files.openCostInBytes`). Without that cost,
    *   twenty thousand small files became one task
    */
  def deal[T](planned: Seq[Seq[T]], kept: Seq[T], orders: Seq[(Int, TopKSpec)], tasks: SplitChooser.Tasks)(
      weight: T => Long,
      bounds: (T, Int) => ColumnBounds
  ): Seq[Seq[T]] = {
    val known = orders.filter { case (c, _) => kept.exists(bounds(_, c) != ColumnBounds.unknown) }
    // No task gets more than the largest planned one.
    lazy val largest = planned.iterator.map(_.iterator.map(weight).sum).maxOption.getOrElse(0L)
    if (known.nonEmpty) pack(BestFirst.sort(kept, known)(bounds), largest)(weight)
    else if (kept.size == planned.iterator.map(_.size).sum) planned
    else pack(kept, math.min(largest, kept.iterator.map(weight).sum / math.max(tasks.atLeast, 1) + 1))(weight)
  }

  /** Fills tasks in the given order up to the limit; each task gets at least one split. */
  private def pack[T](things: Seq[T], limit: Long)(weight: T => Long): Seq[Seq[T]] = {
    val packed = mutable.ArrayBuffer.empty[mutable.ArrayBuffer[T]]
    var size = 0L
    things.foreach { t =>
      if (packed.isEmpty || size + weight(t) > limit) {
        packed += mutable.ArrayBuffer.empty
        size = 0L
      }
      packed.last += t
      size += weight(t)
    }
    packed.map(_.toSeq).toSeq
  }
}
