package org.dynamicfilters.scan

import java.util.concurrent.ConcurrentLinkedQueue

import scala.collection.mutable

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.util.SerializableConfiguration
import org.dynamicfilters.exchange.{ExecutorExchange, TaskSnapshots}
import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}
import org.dynamicfilters.state._

/** One filtered scan in one task: the filters as the task sees them, what it counts, and what it learned of files.
  *
  * Nothing of an execution is in the closure that reads files (Spark keeps that closure between executions of a plan); it
  * finds this object through the running task.
  *
  * @param runs
  *   by filter of the scan, see `TopKRef.nextRun`
  * @param ready
  *   the filters that were complete when the scan was started
  * @param snapshots
  *   for the rule of [[Snapshots]], if it holds
  * @param finish
  *   gets the report when the task ends
  */
final class TaskScan(
    val spec: ScanSpec,
    runs: IndexedSeq[Long],
    ready: ReadyFilters,
    snapshots: Option[ScanSnapshots],
    context: TaskContext,
    finish: ScanReport => Unit
) extends ScanInTask {
  val report = new ScanReport(
    TaskFilters.executionId(context).getOrElse(-1L),
    SparkEnv.get.executorId,
    ReportRoom.of(SparkAccess.maxResultSize(SparkEnv.get.conf), context.numPartitions())
  )

  // Filters that hold for the partition that is being read, where the rule of Snapshots holds.
  private val fixed = snapshots
    .filter(_ => TaskSnapshots.areNeeded)
    .map(
      new FixedFilters(
        spec.filterRefs,
        spec.columns.map(c => Some(c.domain)) ++ spec.tuples.map(_ => None),
        ready,
        _,
        spec.filterRefs.indices.map(i => shared(s"fixed-${spec.scanId}-$i")(new StepTracker(spec.giveUpSelectivity))),
        context
      )
    )
  def isFixed: Boolean = fixed.isDefined

  // A TopK takes the first of equal rows, so the rows' order must not depend on measured times either.
  private def isOrderFixed = isFixed && spec.columns.exists(_.ref.topK.isDefined)
  private val giveUp = if (isOrderFixed) 1.0 else spec.giveUpSelectivity

  /** What the steps of the scan did. A tracker is kept for the next execution if the same filters can be known again. */
  private def tracker(step: String, giveUp: Double = giveUp): StepTracker =
    shared(s"$step-${spec.scanId}")(new StepTracker(giveUp))

  private def trackers(step: String, n: Int): IndexedSeq[StepTracker] = (0 until n).map(i => tracker(s"$step-$i"))

  private def remembered(step: String, filters: String): StepTracker = {
    val scan = (spec.marker.hashCode, spec.requiredSchema.hashCode, spec.options.hashCode)
    StepTracker.of((scan, step, filters.hashCode), giveUp)
  }

  /** Whether measured times may decide how row groups are read. */
  def comparesTimes: Boolean = !isOrderFixed

  /** Looks into dictionaries and Bloom filters of files, by column of the spec. */
  val dictionaries: IndexedSeq[StepTracker] = trackers("dictionary", spec.columns.size)
  val blooms: IndexedSeq[StepTracker] = trackers("bloom", spec.columns.size)

  /** First passes with the filters of tuples. */
  val tupleTrackers: IndexedSeq[StepTracker] = trackers("tuples", spec.tuples.size)

  /** Tests of rows that were read by filters of joins of the same stage, all together. Such a join drops the same rows itself,
    * maybe for less than a test costs: TPC-DS q03 took 196 ms of executors' processor time with tests and 242 without, q65 60 ms
    * more with them. So both ways are measured up to where the operators above the scan ask for the next row group.
    */
  lazy val ownStageTests: StepTracker = {
    val tests = if (isOrderFixed) tracker("ownStage") else remembered("ownStage", "")
    // All bytes have been read.
    tests.leaves(1)
    tests
  }

  /** First passes with the filters as of now. Bounds of a TopK are others with each row group; filters of joins are known again
    * by their text.
    */
  def firstPasses(): StepTracker =
    if (!spec.isForJoinsOnly) anyFirstPass
    else {
      val now = filters() ++ tuples()
      if (firstPassFilters.isEmpty || now.indices.exists(i => now(i) ne firstPassFilters(i))) {
        firstPassFilters = now
        firstPass = remembered("late", now.filter(_ != ValueFilter.All).map(_.expression("")).mkString(";"))
      }
      firstPass
    }
  private lazy val anyFirstPass = tracker("late", spec.giveUpSelectivity)
  private var firstPass: StepTracker = _
  private var firstPassFilters = IndexedSeq.empty[ValueFilter]

  private val splits = mutable.HashMap.empty[(String, Long), LearnedColumns]
  private val current = new CurrentFilters(spec.columns.size + spec.tuples.size, runs, ready, context)

  /** The scan goes on with this partition of its RDD.
    *
    * @param inBatches
    *   whether what it puts out are batches; rows are not tested by tuples
    */
  def reads(partition: Int, inBatches: Boolean): Unit = {
    fixed.foreach(_.reads(partition))
    hasFewKeys = false
    testsTuples = inBatches
    file = -1
    if (isFixed) news = newest()
  }
  private var testsTuples = true

  /** Whether a row group of the partition had fewer different keys than a TopK of groups wants. */
  var hasFewKeys = false
  private var file = -1

  /** The scan goes on with the partition's next file. */
  def reachesFile(): Unit = {
    file += 1
    reaches(0)
  }

  /** The scan goes on with a row group of that file.
    *
    * @param offset
    *   its first byte
    */
  def reachesRowGroup(offset: Long): Unit = reaches(offset)

  /** The scan reads that file without regard to its row groups. */
  def readsWholeFile(): Unit = fixed.foreach(_.readsWhole())

  private def reaches(offset: Long): Unit =
    if (!isOrderFixed) fixed.foreach(_.reaches(ReadPlace(file, offset), hasNews()))

  // What this process knows of filters, to ask the driver only where there may be something new.
  private var news = IndexedSeq.empty[ValueFilter]

  private def newest(): IndexedSeq[ValueFilter] = spec.filterRefs.zipWithIndex.map {
    // One that it has stays: after the execution's end it would be decoded anew each time, and never be the same.
    case (_: JoinRef, at) if at < news.size && news(at) != null => news(at)
    case (j: JoinRef, at) => ready.find(context, j, at).orNull
    case (u: UserRef, at) if u.follows => users(at)(u, context)
    case _ => null
  }

  private def hasNews(): Boolean = {
    val now = newest()
    val changed = now.indices.exists(i => now(i) ne news(i))
    news = now
    changed
  }

  /** Rises whenever other filters hold. */
  def filtersVersion: Int = fixed.fold(0)(_.version)

  /** Filters by column of the spec, as of now: of those by which rows are tested. */
  def filters(): IndexedSeq[ValueFilter] =
    spec.columns.indices.map(i => if (fixed.forall(_.isTested(i))) filter(i) else ValueFilter.All)

  /** The same, and those by which only files and row groups are left out. */
  def allFilters(): IndexedSeq[ValueFilter] = spec.columns.indices.map(filter)

  private def filter(column: Int): ValueFilter = {
    val c = spec.columns(column)
    c.ref match {
      case _: JoinRef | _: UserRef if isFixed => fixed.get(column)
      case u: UserRef => users(column)(u, context)
      case other => current(column, other, c.domain).getOrElse(ValueFilter.All)
    }
  }

  private lazy val users = spec.columns.map(c => new UserColumn(c.domain))

  /** Filters of [[org.dynamicfilters.filter.TupleHash]]es by tuple of the spec, as of now. */
  def tuples(): IndexedSeq[ValueFilter] = spec.tuples.indices.map { i =>
    fixed match {
      case Some(f) =>
        val at = spec.columns.size + i
        if ((testsTuples && f.isTested(at)) || f(at) == ValueFilter.Nothing) f(at) else ValueFilter.All
      case None => current.join(spec.columns.size + i, spec.tuples(i).ref)(identity).getOrElse(ValueFilter.All)
    }
  }

  /** Tests of rows that were read. Below an exchange the partition's snapshot decides, but for filters of the same stage. */
  val rowTests = new RowTests(
    trackers("rows", spec.filterRefs.size),
    report,
    spec.filterRefs.zip(spec.forOwnStage).map { case (ref, own) => isFixed && !own && ref.topK.isEmpty },
    (i, rows, passed) => fixed.foreach(f => if (f.isTested(i)) f.saw(i, rows, passed))
  )

  /** Records the time of a row group once its rows are consumed. */
  def tookRowGroup(nanos: Long): Unit = {
    rowTests.tookRowGroup(nanos)
    (dictionaries ++ blooms).foreach(_.add(Tested(0, 0, Cost(0, 0, nanos))))
  }

  /** What the execution's tasks in this process share; the task's own where it has no execution. */
  private def shared[A <: AnyRef](key: String)(make: => A): A =
    if (isOrderFixed) make
    else TaskFilters.executionId(context).flatMap(Executions.instance.attach(_, key)(make)).getOrElse(make)

  /** What the driver knows of the task's splits, of files as they were listed.
    *
    * @param conf
    *   to ask the file system for a file
    */
  def know(file: PartitionedFile, learned: LearnedColumns, conf: Broadcast[SerializableConfiguration]): Unit = {
    splits((file.urlEncodedPath, file.start)) = learned
    hadoopConf = conf
  }
  private var hadoopConf: Broadcast[SerializableConfiguration] = _
  private lazy val checks = shared("files")(new FileChecks)

  /** What the table says of a file, which never changes.
    *
    * @param bounds
    *   by column of the spec
    */
  def believe(file: PartitionedFile, bounds: Array[ColumnBounds]): Unit = fromTable(file.urlEncodedPath) = bounds
  private val fromTable = mutable.HashMap.empty[String, Array[ColumnBounds]]

  /** The file is another one than was listed.
    *
    * @return
    *   whether anything was known of the split
    */
  def forget(file: PartitionedFile): Boolean = splits.remove((file.urlEncodedPath, file.start)).isDefined

  /** What is known of a column of the spec in the row groups of a split. */
  def known(file: PartitionedFile, column: Int): Option[Array[LearnedRowGroup]] =
    splits.get((file.urlEncodedPath, file.start)).flatMap(_.of(column))

  /** What is known of whatever column in the row groups of a split: enough to count them. */
  def known(file: PartitionedFile): Option[Array[LearnedRowGroup]] =
    spec.columns.indices.iterator.flatMap(known(file, _)).nextOption()

  /** Bytes that the scan would read of a split, where they are known. */
  def knownBytes(file: PartitionedFile): Option[Long] =
    splits.get((file.urlEncodedPath, file.start)).flatMap(_.bytes)

  /** Calls `f` before the report is taken. */
  def beforeReport(f: () => Unit): Unit = counting.add(f)
  private val counting = new ConcurrentLinkedQueue[() => Unit]

  /** The task has ended. */
  override def close(): Unit = {
    counting.forEach(_())
    fixed.foreach { f =>
      f.finish()
      if (f.gaveUp) report.addReason(RowTests.Disabled)
    }
    report.tested = rowTests.counts
    finish(report)
  }

  /** Rows are left out, or not reached, that no filter of a single column was asked about. */
  def overlookAll(): Unit = spec.columns.indices.foreach(report.overlook)

  /** Whether a filter excludes the split before its file is opened: by partition values, by what the table's format says of the
    * file, or by learned statistics if the file is still the one that they were learned of.
    */
  def excludes(file: PartitionedFile): Boolean = {
    val now = pruner(allFilters())
    def isLeftOut(bounds: Int => ColumnBounds, hold: => Boolean): Boolean =
      now.excludes(bounds) && hold && { now.recordSkippedFile(report, bounds); true }
    def certain(i: Int) =
      if (spec.columns(i).isPartitionColumn) partitionBounds(file, i)
      else fromTable.get(file.urlEncodedPath).fold(ColumnBounds.unknown)(_(i))
    // Whether what was learned holds for this file is found out anew by every attempt, maybe with another outcome. Where rows
    // are not tested, that would show.
    def learned(i: Int) =
      if (fixed.exists(!_.isTested(i))) certain(i)
      else known(file, i).map(FileStatistics.boundsOf(_, spec.columns(i).domain)).getOrElse(certain(i))
    (tuples().contains(ValueFilter.Nothing) && { overlookAll(); true }) ||
    isLeftOut(certain, hold = true) ||
    (splits.contains((file.urlEncodedPath, file.start)) && isLeftOut(learned, isAsListed(file)))
  }

  /** Answers questions to statistics by these filters. */
  def pruner(filters: IndexedSeq[ValueFilter]): Pruner = new Pruner(spec.columns, filters)

  private def isAsListed(file: PartitionedFile): Boolean = {
    val answer = checks.ask(file, hadoopConf.value.value)
    if (answer.contains(false) && forget(file)) report.addReason(FileChecks.Changed)
    answer.contains(true)
  }

  /** The one value that a partition column of the spec has in a file. */
  def partitionBounds(file: PartitionedFile, column: Int): ColumnBounds =
    spec.columns(column).partitionBounds(file.partitionValues)
}

object TaskScan {

  /** Files are ordered by the first filter of a scan, if that is a TopK's. */
  val OrderingColumn = 0

  private final case class Key(scanId: Long)

  /** The scan as the running task sees it.
    *
    * @return
    *   None outside of a task, or where the task was not announced by [[begin]]
    */
  def current(scanId: Long): Option[TaskScan] =
    Option(TaskContext.get()).flatMap(RunningTasks.find).flatMap(_.find[TaskScan](Key(scanId)))

  /** Announces a scan to its task, once, however many of the scan's partitions the task reads. */
  def begin(scanId: Long, context: TaskContext)(make: => TaskScan): TaskScan = {
    ExecutorExchange.start()
    RunningTasks.of(context).attach(Key(scanId))(make).getOrElse(make)
  }
}
