package org.dynamicfilters.state

import java.lang.ref.{ReferenceQueue, WeakReference}
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
    * @param tested
    *   whether rows are tested by it one by one; else it leaves out whole files and row groups only, by what the files
    *   themselves say of their values
    * @param filter
    *   its contents, which the name stands for
    */
  final case class Values(name: FilterName, tested: Boolean)(val filter: ValueFilter) extends SnapshotFilter
}

/** The filters with which one partition is computed, in every attempt.
  *
  * @param number
  *   among the snapshots of its table, from 0: what travels with the tasks
  * @param filters
  *   in the order of the table's owner
  */
final case class Snapshot(number: Int, filters: IndexedSeq[SnapshotFilter])

/** A place in what a partition reads, in reading order.
  *
  * @param file
  *   which of the partition's files, from 0
  * @param offset
  *   a row group's first byte in it; 0 for the file's start
  */
final case class ReadPlace(file: Int, offset: Long) extends Ordered[ReadPlace] {
  override def compare(that: ReadPlace): Int =
    if (file != that.file) Integer.compare(file, that.file) else java.lang.Long.compare(offset, that.offset)
}
object ReadPlace {
  val start: ReadPlace = ReadPlace(0, 0)
}

/** From this place on a partition is computed with this snapshot. */
final case class ScheduleEntry(from: ReadPlace, number: Int)

/** What a task tells of the snapshots of one partition. It goes to the driver by [[ResultItems]].
  *
  * @param used
  *   what it used, if the driver may not know: it missed an answer
  * @param tested
  *   by filter, what testing rows by it did; none for a use without tests
  */
final case class SnapshotUse(
    partition: Int,
    used: Option[Vector[ScheduleEntry]],
    tested: IndexedSeq[Tested]
)

/** Which filters each partition of an RDD below an exchange is computed with. On the driver.
  *
  * What a map task hands on must be the same in every attempt of its partition (contract 8): Spark sends rows of a
  * round-robin exchange to reducers by their position among the others, and since 4.3 it compares checksums. But filters
  * become complete, and bounds tighten, while the stage runs. So the first attempt of a partition fixes what it uses, the
  * newest there is, before its first row; later attempts are given the same.
  *
  * Only as long as no other attempt has asked, the first one may go on to newer filters between two row groups: it says from
  * which one on before it reads it, and the schedule is what later attempts are given.
  *
  * An attempt that gets no answer goes on with what it has (at first snapshot 0), and says so with its result; a first attempt
  * need not even ask where snapshot 0 is all that it could be told. Only results
  * count (what failed wrote nothing), and they arrive before the map output is registered, so the attempts after that are given
  * what it used.
  *
  * Belongs to the RDD, not to an execution: Spark keeps shuffle files between executions of a plan, and computes those again
  * that are lost. It is gone with the RDD. Thread-safe.
  *
  * @param first
  *   the filters of snapshot 0
  * @param newest
  *   the filters as of now, by SQL execution (None where there is none) and by whether rows are worth testing
  * @param topKs
  *   by filter, if they are bounds; else none
  * @param giveUpSelectivity
  *   see [[StepTracker]]: if tests of rows by a filter are disabled, partitions that have not started do not test theirs
  * @param mostBytes
  *   of all filters that are kept, encoded; one more may come
  */
final class Snapshots(
    val first: IndexedSeq[SnapshotFilter],
    newest: (Option[Long], Int => Boolean) => IndexedSeq[SnapshotFilter],
    val topKs: IndexedSeq[TopKSpec] = IndexedSeq.empty,
    giveUpSelectivity: Double = 1.0,
    mostBytes: Long = Snapshots.MostBytesOfTable
) {
  import SnapshotFilter.Values
  val id: Long = Snapshots.ids.incrementAndGet()

  /** @param owner
    *   the attempt that may go on to newer filters; None once another one has asked
    */
  private final class Fixed(var schedule: Vector[ScheduleEntry], var owner: Option[Long])

  private val snapshots = mutable.ArrayBuffer(Snapshot(0, first))
  private val fixed = mutable.HashMap.empty[Int, Fixed]
  private val tests = IndexedSeq.fill(first.size)(new StepTracker(giveUpSelectivity))

  /** The schedule of a partition, fixed by the attempt that asks first.
    *
    * @param isFirst
    *   whether there was no attempt before: else one may run that got no answer, with snapshot 0
    */
  def take(
      partition: Int,
      attempt: Long,
      executionId: Option[Long],
      isFirst: Boolean = true
  ): Vector[ScheduleEntry] =
    if (!isFirst) synchronized {
      known(partition).getOrElse {
        fixed(partition) = new Fixed(Snapshots.onlyFirst, None)
        Snapshots.onlyFirst
      }
    }
    else
      known(partition).getOrElse {
        val now = newestNow(executionId)
        synchronized(known(partition).getOrElse {
          val schedule = Vector(ScheduleEntry(ReadPlace.start, numberOf(now)))
          fixed(partition) = new Fixed(schedule, Some(attempt))
          schedule
        })
      }

  private def known(partition: Int): Option[Vector[ScheduleEntry]] = synchronized {
    fixed.get(partition).map { f =>
      f.owner = None
      f.schedule
    }
  }

  /** The same for an attempt that has taken its schedule, and could use newer filters from this place on. */
  def adopt(partition: Int, attempt: Long, from: ReadPlace, executionId: Option[Long]): Vector[ScheduleEntry] = {
    def ownedBy = fixed.get(partition).filter(_.owner.contains(attempt))
    val now = if (synchronized(ownedBy.isDefined)) Some(newestNow(executionId)) else None
    synchronized {
      for (f <- ownedBy; filters <- now) {
        val number = numberOf(filters)
        if (number != f.schedule.last.number && from > f.schedule.last.from && mayAdd(f.schedule, number))
          f.schedule :+= ScheduleEntry(from, number)
      }
      fixed.get(partition).fold(Snapshots.onlyFirst)(_.schedule)
    }
  }

  /** One or the other, depending on whether there is a place. */
  def asked(
      partition: Int,
      attempt: Long,
      isFirst: Boolean,
      newFrom: Option[ReadPlace],
      executionId: Option[Long]
  ): Vector[ScheduleEntry] = newFrom match {
    case None => take(partition, attempt, executionId, isFirst)
    case Some(from) => adopt(partition, attempt, from, executionId)
  }

  // A task holds all filters of its schedule, and they stay as long as the table: ten generations of 5 MB would be a gigabyte.
  // So a partition goes on from what is large to nothing newer; partitions that start later have that.
  private def mayAdd(schedule: Vector[ScheduleEntry], number: Int): Boolean = {
    val sent = schedule.map(_.number).filter(_ > 0)
    sent.isEmpty || named((sent :+ number).map(snapshots))
      .map(_.name)
      .toSet
      .iterator
      .map(sizes.get(_))
      .sum <= Snapshots.MostBytes
  }

  // Encoded bytes of filters by their names.
  private val sizes = new ConcurrentHashMap[FilterName, Long]()

  /** Not under the lock, which Spark's scheduler takes too: it may be now that a filter is built, and measured. */
  private def newestNow(executionId: Option[Long]): IndexedSeq[SnapshotFilter] = {
    val worthTesting = tests.map(_.isTaken())
    val now = newest(executionId, worthTesting)
    now.foreach { case v: Values => sizes.computeIfAbsent(v.name, _ => FilterCodec.sizeOf(v.filter)); case _ => }
    now
  }

  private def numberOf(now: IndexedSeq[SnapshotFilter]): Int =
    // Filters only get tighter; what comes back is whether rows are tested.
    snapshots.takeRight(Snapshots.Recent).findLast(_.filters == now) match {
      case Some(known) => known.number
      // All of them stay as long as the table: partitions that start go on with the last one.
      case None if topKs.isEmpty && bytes > mostBytes => snapshots.last.number
      case None =>
        snapshots += Snapshot(snapshots.size, now)
        snapshots.size - 1
    }
  private def bytes = sizes.values.asScala.sum

  def snapshot(number: Int): Snapshot = synchronized(snapshots(number))

  /** Takes what an attempt that has succeeded tells. */
  def record(use: SnapshotUse): Unit = synchronized {
    use.used.foreach(schedule => fixed(use.partition) = new Fixed(schedule, None))
    tests.zip(use.tested).foreach { case (tracker, t) => if (t.rows > 0) tracker.add(t) }
  }

  private val made = mutable.HashMap.empty[FilterName, AnyRef]

  /** What is made of a filter's contents to send them, made once; None if no snapshot has the filter. */
  def once[A <: AnyRef](name: FilterName)(make: ValueFilter => A): Option[A] = {
    val found = synchronized(named(snapshots).find(_.name == name))
    // A lock of its own: encoding takes long.
    found.map(v => made.synchronized(made.getOrElseUpdate(name, make(v.filter)).asInstanceOf[A]))
  }

  private def named(of: Iterable[Snapshot]) = of.view.flatMap(_.filters).collect { case v: Values => v }

  /** Whether some partition has been computed already, or is being. */
  private[state] def isUsed: Boolean = synchronized(fixed.nonEmpty)

  /** How many different ones there are; for tests. */
  def size: Int = synchronized(snapshots.size)
}

object Snapshots {
  val onlyFirst: Vector[ScheduleEntry] = Vector(ScheduleEntry(ReadPlace.start, 0))

  private val ids = new AtomicLong
  private val tables = new ConcurrentHashMap[Long, Named]()
  private val gone = new ReferenceQueue[Snapshots]

  private final class Named(table: Snapshots) extends WeakReference[Snapshots](table, gone) {
    val id: Long = table.id
  }

  /** Of filters that one partition is read with, one after the other. */
  private[state] val MostBytes = 64 * 1024L

  /** The same of all partitions of an RDD. */
  private val MostBytesOfTable = 256 * 1024 * 1024L

  /** How many snapshots the newest filters are compared with. */
  private val Recent = 4

  /** The table, if its RDD is still there. On the driver. */
  def find(id: Long): Option[Snapshots] = Option(tables.get(id)).flatMap(w => Option(w.get))

  /** Makes a table known to tasks. */
  private[state] def register(table: Snapshots): Unit = {
    // Not by a look at all of them: thousands of short queries may come before the collector does.
    Iterator.continually(gone.poll()).takeWhile(_ != null).foreach { case n: Named => tables.remove(n.id); case _ => }
    tables.put(table.id, new Named(table))
  }
}

/** A table as an RDD holds it: on executors only its name and what travelled are left.
  *
  * @param isShared
  *   whether executors ask the driver; the same for all attempts
  */
final class SnapshotsRef(@transient private val table: Snapshots, val isShared: Boolean) extends Serializable {
  val id: Long = table.id

  /** The filters of snapshot 0. */
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
