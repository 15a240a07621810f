package org.dynamicfilters.scan

import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.exchange.ExecutorExchange
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.scan.statistics.{FileChecks, KnownFiles}
import org.dynamicfilters.state._

/** One filtered scan in one task: the current filters, the counters, and the statistics of files.
  *
  * Spark keeps the closure that reads files between executions of a plan. So the closure refers to no execution: it
  * finds this object through the running task.
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

  private val inForce = new ScanFilters(spec.columns, sent, context)

  /** Whether the filters of joins and users hold for whole partitions, by the rule of [[Snapshots]]. */
  def isFixed: Boolean = inForce.isFixed

  /** Whether a filter belongs to the partition's snapshot, so that [[SnapshotSelector]] tests every row by it. */
  def isInSnapshot(filter: Int): Boolean =
    isFixed && !spec.forOwnStage(filter) && spec.columns(filter).ref.topK.isEmpty

  /** Whether measured times may decide how row groups are read. A TopK takes the first of equal rows, so the order of
    * rows must not depend on times if the rows are fixed.
    */
  val comparesTimes: Boolean = !(isFixed && spec.columns.exists(_.ref.topK.isDefined))

  /** Whether the steps of the scan pay. */
  val steps: ScanSteps = new ScanSteps(
    spec,
    if (comparesTimes) TaskFilters.executionId(context) else None,
    if (comparesTimes) spec.giveUpSelectivity else 1.0
  )

  /** Facts about files before they are opened. */
  val files: KnownFiles = new KnownFiles(report, steps.shared("files")(new FileChecks))

  /** The task starts with a partition of the scan's RDD. */
  def startPartition(partition: Int): Unit = inForce.startPartition(partition)

  /** The current filters by column of the spec. */
  def filters(): IndexedSeq[ValueFilter] = spec.columns.indices.map(inForce(_))

  /** Tests of rows that were read. */
  val rowTests = new RowTests(steps.rows, report, isInSnapshot)

  /** Calls `f` before the report is taken. */
  def beforeReport(f: () => Unit): Unit = counting.add(f)
  private val counting = new ConcurrentLinkedQueue[() => Unit]

  /** The task has ended. */
  override def close(): Unit = {
    counting.forEach(_())
    finish(report)
  }

  /** A pruner with the current filters. */
  def pruner(): Pruner = new Pruner(spec.columns, filters())
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
