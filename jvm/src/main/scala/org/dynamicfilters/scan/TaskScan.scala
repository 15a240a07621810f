package org.dynamicfilters.scan

import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.exchange.{ExecutorExchange, TaskSnapshots}
import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state._

/** One filtered scan in one task: the current filters, the counters, and the statistics of files.
  *
  * Spark keeps the closure that reads files between executions of a plan. So the closure refers to no execution: it finds this
  * object through the running task.
  *
  * @param runs
  *   by filter of the scan, see `TopKRef.nextRun`
  * @param ready
  *   the filters that were complete when the scan started
  * @param snapshots
  *   for the rule of [[Snapshots]], if it may apply
  * @param finish
  *   receives the report when the task ends
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

  // A TopK takes the first of equal rows, so the order of rows must not depend on measured times either.
  private val isOrderFixed = isFixed && spec.columns.exists(_.ref.topK.isDefined)

  /** Whether measured times may decide how row groups are read. */
  def comparesTimes: Boolean = !isOrderFixed

  /** Whether the steps of the scan pay. */
  val steps: ScanSteps = new ScanSteps(
    spec,
    if (isOrderFixed) None else TaskFilters.executionId(context),
    if (isOrderFixed) 1.0 else spec.giveUpSelectivity
  )

  /** Facts about files before they are opened. */
  val files: KnownFiles = new KnownFiles(spec, report, steps.shared("files")(new FileChecks))

  // The filters of the current partition, if the rule of Snapshots applies.
  private val fixed = snapshots
    .filter(_ => isFixed)
    .map(
      new FixedFilters(
        spec.filterRefs,
        spec.columns.map(_.domain),
        (i, filter) => spec.columns(i).converted(filter),
        ready,
        _,
        steps.snapshots,
        context
      )
    )

  /** The tracker of first passes with the current filters. */
  def firstPass(): StepTracker = steps.firstPass(filters())

  private val current = new CurrentFilters(spec.columns.size, runs, ready, context)

  /** The task starts with a partition of the scan's RDD. */
  def startPartition(partition: Int): Unit = {
    fixed.foreach(_.startPartition(partition))
    fewKeys = false
    file = -1
    if (isFixed) news = newest()
  }

  private var fewKeys = false
  private var file = -1

  /** Whether a row group of the partition had fewer distinct keys than a TopK over groups needs. */
  def hasFewKeys: Boolean = fewKeys
  def foundFewKeys(): Unit = fewKeys = true

  /** The task starts with the partition's next file. */
  def startFile(): Unit = {
    file += 1
    advance(0)
  }

  /** The task starts with a row group of the current file.
    *
    * @param offset
    *   its first byte
    */
  def startRowGroup(offset: Long): Unit = advance(offset)

  /** The task reads the current file without seeing its row groups. */
  def readWholeFile(): Unit = fixed.foreach(_.readWholeFile())

  private def advance(offset: Long): Unit =
    if (!isOrderFixed) fixed.foreach(_.advance(ReadPlace(file, offset), hasNews()))

  // The filters that this process knew last. The driver is asked only if there are others.
  private var news = IndexedSeq.empty[ValueFilter]

  private def newest(): IndexedSeq[ValueFilter] = spec.filterRefs.zipWithIndex.map {
    // Kept, because after the execution's end it would be decoded again each time, and would differ from itself.
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

  /** Rises whenever the filters of the partition change. */
  def filtersVersion: Int = fixed.fold(0)(_.version)

  /** The current filters by column of the spec; All if rows are not tested by the filter. */
  def filters(): IndexedSeq[ValueFilter] =
    spec.columns.indices.map(i => if (fixed.forall(_.isTested(i))) filter(i) else ValueFilter.All)

  /** The current filters by column of the spec, including filters that only exclude files and row groups. */
  def allFilters(): IndexedSeq[ValueFilter] = spec.columns.indices.map(filter)

  private def filter(column: Int): ValueFilter = {
    val c = spec.columns(column)
    c.ref match {
      case _: JoinRef | _: UserRef if isFixed => fixed.get(column)
      case u: UserRef => users(column)(u, context)
      case other => current(column, other, c.converted).getOrElse(ValueFilter.All)
    }
  }

  private lazy val users = spec.columns.map(c => new UserColumn(c.domain))

  /** Tests of rows that were read. Below an exchange the partition's snapshot decides about them, except for filters of joins in
    * the same stage.
    */
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
      if (f.gaveUp) report.addReason(Reasons.RowsNotTested)
    }
    report.effects.recordTests(rowTests.counts)
    finish(report)
  }

  /** Records that rows were not reached, so that the effect of each filter on them is unknown. */
  def recordAllSkipped(): Unit = spec.columns.indices.foreach(report.effects.recordSkipped)

  /** Whether a filter excludes the split before its file is opened: by partition values, by bounds from the table's format, or by
    * learned statistics if the file is unchanged.
    */
  def excludes(file: PartitionedFile): Boolean = {
    val now = pruner(allFilters())
    def isLeftOut(bounds: Int => ColumnBounds, hold: => Boolean): Boolean =
      now.excludes(bounds) && hold && { now.recordSkippedFile(report, bounds); true }
    // Each attempt checks whether the file is unchanged, and two attempts may differ in that. The output must not depend on it
    // if rows are not tested.
    def bounds(i: Int) =
      if (fixed.exists(!_.isTested(i))) files.certainBounds(file, i) else files.bounds(file, i)
    isLeftOut(files.certainBounds(file, _), hold = true) ||
    (files(file).hasLearned && isLeftOut(bounds, files.isAsListed(file)))
  }

  def pruner(filters: IndexedSeq[ValueFilter]): Pruner = new Pruner(spec.columns, filters)
}

object TaskScan {

  /** Files are ordered by the first filter of a scan, if that is a TopK's. */
  val OrderingColumn = 0

  private final case class Key(scanId: Long)

  /** The scan in the running task; None outside of a task, and before [[begin]]. */
  def current(scanId: Long): Option[TaskScan] =
    Option(TaskContext.get()).flatMap(RunningTasks.find).flatMap(_.find[TaskScan](Key(scanId)))

  /** Makes the scan of a task, once for all partitions that the task reads. */
  def begin(scanId: Long, context: TaskContext)(make: => TaskScan): TaskScan = {
    ExecutorExchange.start()
    RunningTasks.of(context).attach(Key(scanId))(make).getOrElse(make)
  }
}
