package org.dynamicfilters.scan

import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.exchange.ExecutorExchange
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state._

/** One filtered scan in one task: the current filters, the counters, and the statistics of files.
  *
  * Spark keeps the closure that reads files between executions of a plan. So the closure refers to no execution: it finds this
  * object through the running task.
  */
final class TaskScan(
    val spec: ScanSpec,
    sent: SentFilters,
    context: TaskContext,
    finish: ScanReport => Unit
) extends ScanInTask {
  val report = new ScanReport(
    TaskFilters.executionId(context).getOrElse(-1L),
    SparkEnv.get.executorId,
    ReportRoom.of(SparkAccess.maxResultSize(SparkEnv.get.conf), context.numPartitions())
  )

  private val inForce = new ScanFilters(spec.columns, sent, steps.snapshots, context)

  /** The filters that hold for whole partitions, if the rule of [[Snapshots]] applies. */
  private[scan] def fixed: Option[FixedFilters] = inForce.fixed
  def isFixed: Boolean = fixed.isDefined

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
  val files: KnownFiles = new KnownFiles(report, steps.shared("files")(new FileChecks))

  /** The tracker of first passes with the current filters. */
  def firstPass(): StepTracker = steps.firstPass(filters())

  /** The task starts with a partition of the scan's RDD. */
  def startPartition(partition: Int): Unit = {
    fixed.foreach(_.startPartition(partition))
    fewKeys = false
  }

  private var fewKeys = false

  /** Whether a row group of the partition had fewer distinct keys than a TopK over groups needs. */
  def hasFewKeys: Boolean = fewKeys
  def foundFewKeys(): Unit = fewKeys = true

  /** The task starts with the partition's next file. */
  def open(next: PartitionedFile): SplitRead = new SplitRead(this, next)

  /** The current filters by column of the spec; All if rows are not tested by the filter. */
  def filters(): IndexedSeq[ValueFilter] =
    spec.columns.indices.map(i => if (fixed.forall(_.isTested(i))) inForce(i) else ValueFilter.All)

  /** The current filters by column of the spec, including filters that only exclude files and row groups. */
  def allFilters(): IndexedSeq[ValueFilter] = spec.columns.indices.map(inForce(_))

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
  def recordRowGroupTime(nanos: Long): Unit = {
    rowTests.recordRowGroupTime(nanos)
    steps.recordRowGroupTime(nanos)
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
    finish(report)
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
