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

/** A place in what a partition reads, in reading order.
  *
  * @param file which of the partition's files, from 0
  * @param offset a row group's first byte in it; 0 for the file's start
  */
final case class ReadPlace(file: Int, offset: Long) extends Ordered[ReadPlace] {
  override def compare(that: ReadPlace): Int =
    if (file != that.file) Integer.compare(file, that.file) else java.lang.Long.compare(offset, that.offset)
}
object ReadPlace {
  val start: ReadPlace = ReadPlace(0, 0)
}

/** From this place on a partition is computed with this snapshot.
  *
  * @param filters in the order of the table's owner
  */
final case class ScheduleEntry(from: ReadPlace, filters: IndexedSeq[SnapshotFilter])

/** What a task tells of the snapshots of one partition. It goes to the driver by [[ResultItems]].
  *
  * @param used what it used, if the driver may not know
  * @param tested by filter, what testing rows by it did; none for a use without tests
  */
final case class SnapshotUse(
    partition: Int,
    used: Option[Vector[ScheduleEntry]],
    tested: IndexedSeq[StepResult]
)

/** Which filters each partition of an RDD below an exchange is computed with. On the driver. This is the rule (contract 8):
  *
  *   1. All attempts of a partition hand on the rows that pass one schedule of snapshots, because Spark sends rows of a
  *      round-robin exchange to reducers by their position, and since 4.3 it compares checksums of map outputs.
  *   1. The first attempt fixes the schedule before its first row, to the newest filters that the driver has. The driver gives
  *      every later attempt the same schedule. If no attempt has fixed one, later attempts use the filters sent with the tasks.
  *   1. Until another attempt asks, the first one may go on to newer filters from a row group on that it has not read.
  *   1. A first attempt that gets no answer uses the filters sent with its task. So does one whose filters were all sent with
  *      it. Its result replaces the schedule, before Spark registers the map output.
  *   1. Any other attempt that gets no answer, or cannot keep to the schedule, fails with
  *      [[org.dynamicfilters.exchange.SnapshotUnavailable]], and Spark tries again.
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
    first: IndexedSeq[SnapshotFilter],
    newest: (Option[Long], Int => Boolean) => IndexedSeq[SnapshotFilter],
    val topKs: IndexedSeq[TopKSpec] = IndexedSeq.empty,
    giveUpSelectivity: Double = 1.0,
    mostBytes: Long = Snapshots.MostBytesOfTable
) {
  import SnapshotFilter.Values
  val id: Long = Snapshots.ids.incrementAndGet()

  /** The schedule of an attempt that goes on with what has travelled. */
  val onlyFirst: Vector[ScheduleEntry] = Vector(ScheduleEntry(ReadPlace.start, first))

  /** @param owner the attempt that may go on to newer filters; None once another one has asked
    */
  private final class Fixed(var schedule: Vector[ScheduleEntry], var owner: Option[Long])

  // All that some partition may have been given.
  private val snapshots = mutable.ArrayBuffer(first)
  private val fixed = mutable.HashMap.empty[Int, Fixed]
  private val tests = IndexedSeq.fill(first.size)(new StepTracker(giveUpSelectivity))

  /** The schedule of a partition, fixed by the attempt that asks first.
    *
    * @param isFirst whether there was no attempt before. If false, an earlier attempt may still run with the filters
    *   sent with its task
    * @param newFrom None for an attempt that starts; else from which place on it could use newer filters
    */
  def scheduleFor(
      partition: Int,
      attempt: Long,
      isFirst: Boolean,
      newFrom: Option[ReadPlace],
      executionId: Option[Long]
  ): Vector[ScheduleEntry] = {
    def mayChoose =
      fixed.get(partition).fold(isFirst && newFrom.isEmpty)(newFrom.isDefined && _.owner.contains(attempt))
    val now = if (synchronized(mayChoose)) Some(newestNow(executionId)) else None
    synchronized {
      if (newFrom.isEmpty) fixed.get(partition).foreach(_.owner = None)
      for (newest <- now if mayChoose) {
        val filters = known(newest)
        newFrom match {
          case None => fixed(partition) = new Fixed(Vector(ScheduleEntry(ReadPlace.start, filters)), Some(attempt))
          case Some(from) => append(fixed(partition), ScheduleEntry(from, filters))
        }
      }
      fixed.getOrElseUpdate(partition, new Fixed(onlyFirst, None)).schedule
    }
  }

  private def append(f: Fixed, e: ScheduleEntry): Unit =
    if (e.filters != f.schedule.last.filters && e.from > f.schedule.last.from && mayAdd(f.schedule, e)) f.schedule :+= e

  // A task holds all filters of its schedule, and they stay as long as the table: ten generations of 5 MB would be a gigabyte.
  // Above this size a running partition keeps its filters. Partitions that start later get the newest.
  private def mayAdd(schedule: Vector[ScheduleEntry], next: ScheduleEntry): Boolean = {
    def names(of: Seq[ScheduleEntry]) = named(of.map(_.filters)).map(_.name).toSet
    names(schedule).isEmpty || names(schedule :+ next).iterator.map(sizes.get(_)).sum <= Snapshots.MostBytes
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
    use.used.foreach { schedule =>
      // With the contents of its filters, which did not come with it.
      val used = schedule.map(e => snapshots.find(_ == e.filters).fold(e)(s => e.copy(filters = s)))
      fixed(use.partition) = new Fixed(used, None)
    }
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

  /** Of filters that one partition is read with, one after the other. */
  private[state] val MostBytes = 64 * 1024L

  /** The same of all partitions of an RDD. */
  private val MostBytesOfTable = 256 * 1024 * 1024L

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
  val onlyFirst: Vector[ScheduleEntry] = table.onlyFirst

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
