package org.dynamicfilters.scan

import scala.collection.mutable

import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.state.TopKSpec

/** Deals things out to tasks. */
private[scan] object Packing {

  /** Deals out what is left of a scan: best first under a TopK, else as it was planned if nothing was left out, else in as many
    * tasks as there may be.
    *
    * @param planned
    *   by task, as the scan has planned them
    * @param kept
    *   those of them that are read
    * @param weight
    *   bytes, with what it takes to open a file, as Spark counts (`spark.sql.files.openCostInBytes`). By their lengths alone
    *   twenty thousand small files were one task
    */
  def deal[T](planned: Seq[Seq[T]], kept: Seq[T], orders: Seq[(Int, TopKSpec)], tasks: SplitChooser.Tasks)(
      weight: T => Long,
      bounds: (T, Int) => ColumnBounds
  ): Seq[Seq[T]] = {
    val known = orders.filter { case (c, _) => kept.exists(bounds(_, c) != ColumnBounds.unknown) }
    // No task gets more than the largest one of those that were planned.
    lazy val largest = planned.iterator.map(_.iterator.map(weight).sum).maxOption.getOrElse(0L)
    if (known.nonEmpty) pack(BestFirst.sort(kept, known)(bounds), largest)(weight)
    else if (kept.size == planned.iterator.map(_.size).sum) planned
    else pack(kept, math.min(largest, kept.iterator.map(weight).sum / math.max(tasks.atLeast, 1) + 1))(weight)
  }

  /** In the order given, as many things a task as fit; each task has one at least. */
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
