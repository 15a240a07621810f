package org.dynamicfilters.scan

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.dynamicfilters.exchange.{LocalExchange, TaskFilters}
import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}

/** One filtered scan in one task: the filters as the task sees them, what it counts, and what it learned of files.
  *
  * Nothing of an execution is in the closure that reads files (Spark keeps that closure between executions of a plan); it
  * finds this object through the running task.
  */
final class TaskScan(val spec: ScanSpec, runs: IndexedSeq[Long], context: TaskContext) {
  val report = new ScanReport(TaskFilters.executionId(context).getOrElse(-1L))
  val advisor: LateMaterializationAdvisor = TaskFilters
    .executionId(context)
    .flatMap(LocalExchange.instance.shared(_, s"advisor-${spec.scanId}")(newAdvisor))
    .getOrElse(newAdvisor)
  private def newAdvisor = new LateMaterializationAdvisor(spec.giveUpSelectivity)
  private val splits = mutable.HashMap.empty[(String, Long), Array[LearnedRowGroup]]

  /** Filters by column of the spec, as of now. */
  def filters(): IndexedSeq[ValueFilter] =
    spec.columns.indices.map(i => TaskFilters.filter(context, spec.columns(i).ref, runs(i)).getOrElse(ValueFilter.All))

  /** What the driver knows of the task's splits. */
  def know(file: PartitionedFile, rowGroups: Array[LearnedRowGroup]): Unit =
    splits((file.urlEncodedPath, file.start)) = rowGroups
  def known(file: PartitionedFile): Option[Array[LearnedRowGroup]] = splits.get((file.urlEncodedPath, file.start))

  /** Whether a filter excludes the split before its file is opened: by partition values or by learned statistics. */
  def excludes(file: PartitionedFile): Boolean = {
    val now = filters()
    spec.columns.indices.exists { i =>
      val c = spec.columns(i)
      val bounds =
        if (c.isPartitionColumn) partitionBounds(file.partitionValues, c)
        else if (i == TaskScan.OrderingColumn)
          known(file).map(FileStatistics.boundsOf(_, c.ref.spec.domain)).getOrElse(ColumnBounds.unknown)
        else ColumnBounds.unknown
      now(i) == ValueFilter.Nothing || !now(i).couldPass(bounds)
    }
  }

  private def partitionBounds(values: InternalRow, c: ScanColumn): ColumnBounds =
    ColumnBounds.exact(c.ref.spec.domain.fromRow(values, c.partitionOrdinal))
}

object TaskScan {

  /** Statistics are learned for, and files ordered by, the first filter of a scan. */
  val OrderingColumn = 0

  private val scans = new ConcurrentHashMap[(Long, Long), TaskScan]()

  /** The scan as the running task sees it.
    *
    * @return
    *   None outside of a task, or where the task was not announced by [[begin]]
    */
  def current(scanId: Long): Option[TaskScan] =
    Option(TaskContext.get()).flatMap(c => Option(scans.get((c.taskAttemptId(), scanId))))

  /** Announces a scan to its task; `finish` gets the report when the task ends. Once a task, however many of the scan's
    * partitions it reads.
    *
    * @param runs
    *   by filter of the scan, see `FilterRef.nextRun`
    */
  def begin(spec: ScanSpec, runs: IndexedSeq[Long], context: TaskContext, finish: ScanReport => Unit): TaskScan = {
    val id = (context.taskAttemptId(), spec.scanId)
    val known = scans.get(id)
    if (known != null) known
    else {
      val fresh = new TaskScan(spec, runs, context)
      scans.put(id, fresh)
      context.addTaskCompletionListener[Unit] { _ =>
        scans.remove(id)
        finish(fresh.report)
      }
      fresh
    }
  }

  /** Announced scans; for tests of the life cycle. */
  def live: Int = scans.size
}
