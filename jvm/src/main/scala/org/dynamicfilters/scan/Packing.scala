package org.dynamicfilters.scan

import scala.collection.mutable

/** Deals things out to tasks. */
private[scan] object Packing {

  /** In the order given, as many things a task as fit; each task has one at least.
    *
    * @param bytes
    *   of each thing; with what it takes to open a file, as Spark counts (`spark.sql.files.openCostInBytes`). By their lengths
    *   alone twenty thousand small files were one task
    */
  def pack[T](things: Seq[T], limit: Long)(bytes: T => Long): Seq[Seq[T]] = {
    val packed = mutable.ArrayBuffer.empty[mutable.ArrayBuffer[T]]
    var size = 0L
    things.foreach { t =>
      if (packed.isEmpty || size + bytes(t) > limit) {
        packed += mutable.ArrayBuffer.empty
        size = 0L
      }
      packed.last += t
      size += bytes(t)
    }
    packed.map(_.toSeq).toSeq
  }
}
