package org.dynamicfilters.scan

import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
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

  /** Whether filters hold for whole partitions, by the rule of [[Snapshots]]. */
  val isFixed: Boolean = snapshots.isDefined && TaskSnapshots.outputMustBeFixed

  // A TopK takes the first of equal rows, so the rows' order must not depend on measured times either.
  private val isOrderFixed = isFixed && spec.columns.exists(_.ref.topK.isDefined)

  /** Whether measured times may decide how row groups are read. */
  def comparesTimes: Boolean = !isOrderFixed

  /** Whether the steps of the scan pay. */
  val steps: ScanSteps = new ScanSteps(
    spec,
    if (isOrderFixed) None else TaskFilters.executionId(context),
    if (isOrderFixed) 1.0 else spec.giveUpSelectivity
  )

  /** What is known of files before they are opened. */
  val files: KnownFiles = new KnownFiles(spec, report, steps.shared("files")(new FileChecks))

  // Filters that hold for the partition that is being read, where the rule of Snapshots holds.
  private val fixed = snapshots
    .filter(_ => isFixed)
    .map(
      new FixedFilters(
        spec.filterRefs,
        spec.columns.map(_.domain),
        ready,
        _,
        steps.snapshots,
        context
      )
    )

  /** Whether a first pass pays with the filters as of now. */
  def firstPass(): StepTracker = steps.firstPass(filters())

  private val current = new CurrentFilters(spec.columns.size, runs, ready, context)

  /** The scan goes on with this partition of its RDD. */
  def reads(partition: Int): Unit = {
    fixed.foreach(_.reads(partition))
    hasFewKeys = false
    file = -1
    if (isFixed) news = newest()
  }

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

  /** Tests of rows that were read. Below an exchange the partition's snapshot decides, but for filters of the same stage. */
  val rowTests = new RowTests(
    steps.rows,
    report,
    spec.filterRefs.zip(spec.forOwnStage).map { case (ref, own) => isFixed && !own && ref.topK.isEmpty },
    (i, rows, passed) => fixed.foreach(f => if (f.isTested(i)) f.saw(i, rows, passed))
  )

  /** Records the time of a row group once its rows are consumed. */
  def tookRowGroup(nanos: Long): Unit = {
    rowTests.tookRowGroup(nanos)
    steps.tookRowGroup(nanos)
  }

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
    report.effects.recordTests(rowTests.counts)
    finish(report)
  }

  /** Rows are left out, or not reached, that no filter of a single column was asked about. */
  def overlookAll(): Unit = spec.columns.indices.foreach(report.effects.recordSkipped)

  /** Whether a filter excludes the split before its file is opened: by partition values, by what the table's format says of the
    * file, or by learned statistics if the file is still the one that they were learned of.
    */
  def excludes(file: PartitionedFile): Boolean = {
    val now = pruner(allFilters())
    def isLeftOut(bounds: Int => ColumnBounds, hold: => Boolean): Boolean =
      now.excludes(bounds) && hold && { now.recordSkippedFile(report, bounds); true }
    // Whether what was learned holds for this file is found out anew by every attempt, maybe with another outcome. Where rows
    // are not tested, that would show.
    def bounds(i: Int) =
      if (fixed.exists(!_.isTested(i))) files.certainBounds(file, i) else files.bounds(file, i)
    isLeftOut(files.certainBounds(file, _), hold = true) ||
    (files.hasLearned(file) && isLeftOut(bounds, files.isAsListed(file)))
  }

  /** Answers questions to statistics by these filters. */
  def pruner(filters: IndexedSeq[ValueFilter]): Pruner = new Pruner(spec.columns, filters)
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
