package org.dynamicfilters.exchange

import org.apache.spark.util.AccumulatorV2

/** What a task tells of the snapshots of one partition.
  *
  * @param used
  *   what it used, if the driver may not know: it missed an answer
  * @param tested
  *   by filter, how many rows were tested, and how many of them passed
  */
final case class SnapshotUse(
    partition: Int,
    used: Option[Vector[ScheduleEntry]],
    tested: IndexedSeq[(Long, Long)]
)

/** Carries [[SnapshotUse]]s to the driver with the results of tasks: from successful attempts only, and before Spark registers
  * their map outputs.
  */
final class SnapshotUses(@transient private val table: Snapshots) extends AccumulatorV2[SnapshotUse, Seq[SnapshotUse]] {
  private var uses = Vector.empty[SnapshotUse]

  override def isZero: Boolean = uses.isEmpty
  override def copy(): SnapshotUses = {
    val c = new SnapshotUses(table)
    c.uses = uses
    c
  }
  // What a task gets: without the driver's table.
  override def copyAndReset(): SnapshotUses = new SnapshotUses(null)
  override def reset(): Unit = uses = Vector.empty
  override def add(u: SnapshotUse): Unit = uses :+= u
  override def merge(other: AccumulatorV2[SnapshotUse, Seq[SnapshotUse]]): Unit = other match {
    case o: SnapshotUses =>
      if (table == null) uses ++= o.uses
      else
        o.uses.foreach { u =>
          u.used.foreach(table.used(u.partition, _))
          u.tested.indices.foreach(i => if (u.tested(i)._1 > 0) table.observed(i, u.tested(i)._1, u.tested(i)._2))
        }
    case _ =>
  }
  override def value: Seq[SnapshotUse] = uses
}
