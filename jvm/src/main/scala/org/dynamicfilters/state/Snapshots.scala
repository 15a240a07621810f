package org.dynamicfilters.state

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.dynamicfilters.filter.{FilterCodec, ValueFilter}

/** What a snapshot holds of one filter. */
sealed trait SnapshotFilter
object SnapshotFilter {

  /** Nothing was known: every row passes. */
  case object Unknown extends SnapshotFilter

  /** What travelled with the tasks. */
  final case class Travelled(tested: Boolean) extends SnapshotFilter

  /** The bound of a TopK. */
  final case class Bound(bound: TopKBound) extends SnapshotFilter

  /** A complete filter that came later.
    *
    * @param tested whether rows are tested by it one by one; else it leaves out whole files and row groups only, by
    *   what the files themselves say of their values
    * @param filter its contents, which the name stands for; they are no part of task results
    */
  final case class Values(name: FilterName, tested: Boolean)(@transient val filter: ValueFilter) extends SnapshotFilter
}

/** What a task tells of the snapshots of one partition. It goes to the driver by [[ResultItems]].
  *
  * @param used what it used, if the driver may not know
  * @param tested by filter, what testing rows by it did; none for a use without tests
  */
final case class SnapshotUse(
    partition: Int,
    used: Option[IndexedSeq[SnapshotFilter]],
    tested: IndexedSeq[StepResult]
)

/** Which filters each partition of an RDD below an exchange is computed with. On the driver. This is the rule (contract 8):
  *
  *   1. A partition has one snapshot of filters. All its attempts hand on the rows that pass it, because Spark sends rows of a
  *      round-robin exchange to reducers by their position, and since 4.3 it compares checksums of map outputs.
  *   1. The first attempt fixes the snapshot before its first row, to the newest filters that the driver has. The driver gives
  *      every later attempt the same snapshot. If no attempt has fixed one, later attempts use the filters sent with the tasks.
  *   1. A first attempt that gets no answer uses the filters sent with its task. So does one whose filters were all sent with
  *      it. Its result replaces the snapshot, before Spark registers the map output.
  *   1. Any other attempt that gets no answer fails with [[org.dynamicfilters.exchange.SnapshotUnavailable]], and Spark tries
  *      again.
  *
  * Belongs to the RDD, not to an execution: Spark keeps shuffle files between executions of a plan, and computes those again
  * that are lost. It is gone with the RDD. Thread-safe.
  *
  * @param first what travels with the tasks
  * @param newest returns the current filters. Arguments: the SQL execution, None outside of one; and by filter, whether
  *   rows are tested by it
  * @param topKs by filter, if they are bounds; else none
  * @param giveUpSelectivity see [[StepTracker]]: if tests of rows by a filter are disabled, partitions that have not
  *   started do not test theirs
  * @param mostBytes of all filters that are kept, encoded; one more may come
  */
final class Snapshots(
    val first: IndexedSeq[SnapshotFilter],
    newest: (Option[Long], Int => Boolean) => IndexedSeq[SnapshotFilter],
    val topKs: IndexedSeq[TopKSpec] = IndexedSeq.empty,
    giveUpSelectivity: Double = 1.0,
    mostBytes: Long = Snapshots.MostBytes
) {
  import SnapshotFilter.Values
  val id: Long = Snapshots.ids.incrementAndGet()

  // All that some partition may have been given.
  private val snapshots = mutable.ArrayBuffer(first)
  private val fixed = mutable.HashMap.empty[Int, IndexedSeq[SnapshotFilter]]
  private val tests = IndexedSeq.fill(first.size)(new StepTracker(giveUpSelectivity))

  /** The snapshot of a partition, fixed by the attempt that asks first.
    *
    * @param isFirst whether there was no attempt before. If false, an earlier attempt may still run with the filters
    *   sent with its task
    */
  def ofPartition(partition: Int, isFirst: Boolean, executionId: Option[Long]): IndexedSeq[SnapshotFilter] = {
    def isFixed = synchronized(fixed.contains(partition))
    val now = Option.when(isFirst && !isFixed)(newestNow(executionId))
    synchronized(fixed.getOrElseUpdate(partition, now.fold(first)(known)))
  }

  // Encoded bytes of filters by their names.
  private val sizes = new ConcurrentHashMap[FilterName, Long]()

  /** Takes no lock, because the call may build and encode a filter, and Spark's scheduler waits for the lock. */
  private def newestNow(executionId: Option[Long]): IndexedSeq[SnapshotFilter] = {
    val worthTesting = tests.map(_.isTaken())
    val now = newest(executionId, worthTesting)
    now.foreach { case v: Values => sizes.computeIfAbsent(v.name, _ => FilterCodec.sizeOf(v.filter)); case _ => }
    now
  }

  /** The same snapshot, if it is one of the last ones. */
  private def known(now: IndexedSeq[SnapshotFilter]): IndexedSeq[SnapshotFilter] =
    // Filters never loosen. Only whether rows are tested can return to an earlier value.
    snapshots.takeRight(Snapshots.Recent).findLast(_ == now).getOrElse {
      // All of them stay as long as the table: partitions that start go on with the last one.
      if (topKs.nonEmpty || bytes <= mostBytes) snapshots += now
      snapshots.last
    }
  private def bytes = sizes.values.asScala.sum

  /** Takes what an attempt that has succeeded tells. */
  def record(use: SnapshotUse): Unit = synchronized {
    // With the contents of its filters, which did not come with it.
    use.used.foreach(used => fixed(use.partition) = snapshots.find(_ == used).getOrElse(used))
    tests.zip(use.tested).foreach { case (tracker, t) => if (t.rows > 0) tracker.add(t) }
  }

  private val made = mutable.HashMap.empty[FilterName, AnyRef]

  /** A filter in the form in which it is sent, made once; None if no snapshot has the filter. */
  def once[A <: AnyRef](name: FilterName)(make: ValueFilter => A): Option[A] = {
    val found = synchronized(named(snapshots).find(_.name == name))
    // A lock of its own: encoding takes long.
    found.map(v => made.synchronized(made.getOrElseUpdate(name, make(v.filter)).asInstanceOf[A]))
  }

  private def named(of: Iterable[IndexedSeq[SnapshotFilter]]) = of.view.flatten.collect { case v: Values => v }

  /** Whether some partition has been computed already, or is being. */
  private[state] def isUsed: Boolean = synchronized(fixed.nonEmpty)

  /** How many different ones there are; for tests. */
  def size: Int = synchronized(snapshots.size)
}

object Snapshots {
  private val ids = new AtomicLong
  private val tables = new WeakRegistry[Long, Snapshots]

  private val MostBytes = 256 * 1024 * 1024L

  /** How many snapshots the newest filters are compared with. */
  private val Recent = 4

  /** The table, if its RDD is still there. On the driver. */
  def find(id: Long): Option[Snapshots] = tables.find(id)

  /** Makes a table known to tasks. */
  private[state] def register(table: Snapshots): Unit = tables.put(table.id, table)
}

/** A table as an RDD holds it. Executors have only its id and the filters sent with the tasks.
  *
  * @param isShared whether executors ask the driver; the same for all attempts
  */
final class SnapshotsRef(@transient private val table: Snapshots, val isShared: Boolean) extends Serializable {
  val id: Long = table.id
  val first: IndexedSeq[SnapshotFilter] = table.first

  /** By filter, for bounds. */
  val topKs: IndexedSeq[TopKSpec] = table.topKs

  /** Whether attempts of this stage may not be the first ones of their partitions: as of the stage's submission, when Spark
    * serializes its RDDs.
    */
  var wasUsed = false

  private def writeObject(out: java.io.ObjectOutputStream): Unit = {
    if (table != null) wasUsed = table.isUsed
    out.defaultWriteObject()
  }

  Snapshots.register(table)
}
