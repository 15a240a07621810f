package org.dynamicfilters.state

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.dynamicfilters.filter.{FilterCodec, ValueFilter}

/** What a snapshot holds of one filter. */
sealed trait SnapshotFilter
object SnapshotFilter {

  /** Nothing was known: every row passes. */
  case object Unknown extends SnapshotFilter

  /** What travelled with the tasks. */
  case object Travelled extends SnapshotFilter

  /** The bound of a TopK. */
  final case class Bound(bound: TopKBound) extends SnapshotFilter

  /** A complete filter that came later.
    *
    * @param filter its contents, which the name stands for
    */
  final case class Values(name: FilterName)(val filter: ValueFilter) extends SnapshotFilter
}

/** Which filters each partition of an RDD below an exchange is computed with. On the driver. The rule (contract 8):
  *
  *   1. A partition has one snapshot of filters. All its attempts hand on the rows that pass it, because Spark sends
  *      rows of a round-robin exchange by their position, and since 4.3 it compares checksums of map outputs.
  *   1. The first attempt fixes the snapshot before its first row, to the newest filters that the driver has. The
  *      driver gives every later attempt the same snapshot. If no attempt has fixed one, later attempts use the filters
  *      sent with the tasks.
  *   1. A first attempt that gets no answer uses the filters sent with its task. Its result replaces the snapshot,
  *      before Spark registers the map output.
  *   1. Any other attempt that gets no answer fails with [[org.dynamicfilters.exchange.SnapshotUnavailable]], and Spark
  *      tries again.
  *
  * Belongs to the RDD, not to an execution: Spark keeps shuffle files between executions of a plan, and computes those
  * again that are lost. It is gone with the RDD. Thread-safe.
  *
  * @param first what travels with the tasks
  * @param newest returns the current filters. Argument: the SQL execution, None outside of one
  * @param topKs by filter, if they are bounds; else none
  * @param mostBytes of all filters that are kept, encoded; one more may come
  */
final class Snapshots(
    val first: IndexedSeq[SnapshotFilter],
    newest: Option[Long] => IndexedSeq[SnapshotFilter],
    val topKs: IndexedSeq[TopKSpec] = IndexedSeq.empty,
    mostBytes: Long = Snapshots.MostBytes
) {
  import SnapshotFilter.Values
  val id: Long = Snapshots.ids.incrementAndGet()

  // All that some partition may have been given.
  private val snapshots = mutable.ArrayBuffer(first)
  private val fixed = mutable.HashMap.empty[Int, IndexedSeq[SnapshotFilter]]

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
    val now = newest(executionId)
    now.foreach { case v: Values => sizes.computeIfAbsent(v.name, _ => FilterCodec.sizeOf(v.filter)); case _ => }
    now
  }

  /** The last snapshot, after `now` was added if it is another one. All snapshots stay as long as the table, so none is
    * added above `mostBytes`.
    */
  private def known(now: IndexedSeq[SnapshotFilter]): IndexedSeq[SnapshotFilter] = {
    if (now != snapshots.last && (topKs.nonEmpty || bytes <= mostBytes)) snapshots += now
    snapshots.last
  }
  private def bytes = sizes.values.asScala.sum

  /** An attempt of the partition has succeeded with the filters sent with its task. */
  def usedFirst(partition: Int): Unit = synchronized { fixed(partition) = first }

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

  /** The table, if its RDD is still there. On the driver. */
  def find(id: Long): Option[Snapshots] = tables.find(id)

  /** Makes a table known to tasks. */
  private[state] def register(table: Snapshots): Unit = tables.put(table.id, table)
}

/** A table as an RDD holds it. Executors have only its id and the filters sent with the tasks.
  *
  * @param isShared whether executors ask the driver; the same for all attempts
  * @param mayChange whether filters may come or change while the RDD is computed. If not, all snapshots are `first`
  */
final class SnapshotsRef(@transient private val table: Snapshots, val isShared: Boolean, val mayChange: Boolean)
    extends Serializable {
  val id: Long = table.id
  val first: IndexedSeq[SnapshotFilter] = table.first

  /** Takes the partitions of attempts that used `first` because the driver did not answer. */
  val usedFirst: ResultItems[Int] = new ResultItems[Int](table.usedFirst)

  /** By filter, for bounds. */
  val topKs: IndexedSeq[TopKSpec] = table.topKs

  /** Whether some partition may have had an attempt before this stage. Set when the stage is submitted: Spark then
    * serializes its RDDs.
    */
  var wasUsed = false

  private def writeObject(out: java.io.ObjectOutputStream): Unit = {
    if (table != null) wasUsed = table.isUsed
    out.defaultWriteObject()
  }

  Snapshots.register(table)
}

object SnapshotsRef {

  /** On the driver, when an RDD is made. */
  def apply(sc: SparkContext, table: Snapshots, mayChange: Boolean = true): SnapshotsRef = {
    val ref = new SnapshotsRef(table, TaskFilters.shares(sc), mayChange)
    sc.register(ref.usedFirst)
    ref
  }
}
