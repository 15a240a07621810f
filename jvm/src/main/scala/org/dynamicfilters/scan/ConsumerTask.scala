package org.dynamicfilters.scan

import java.util.concurrent.ConcurrentHashMap

import scala.reflect.ClassTag

import org.apache.spark.{OneToOneDependency, Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.dynamicfilters.exchange.{ExecutorExchange, TaskSnapshots}
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.state.{JoinRef, LocalExchange, TaskFilters}

/** The filters of custom scans in one task.
  *
  * Nothing of an execution is in the filters that a scan holds (a plan may be executed twice); they find this object through
  * the running task.
  */
private final class ConsumerTask(
    filters: IndexedSeq[ApiFilter],
    runs: IndexedSeq[Long],
    ready: ReadyFilters,
    snapshots: Option[ScanSnapshots],
    context: TaskContext
) {
  private val now = new CurrentFilters(filters.size, runs, ready, context)
  private val fixed = snapshots
    .filter(_ => TaskSnapshots.areNeeded)
    .map(new FixedFilters(filters.map(_.ref), filters.map(f => Some(f.domain)), ready, _, IndexedSeq.empty, context))

  def current(id: Long): Option[ValueFilter] = {
    val at = filters.indexWhere(_.id == id)
    if (at < 0) None
    else
      (filters(at).ref, fixed) match {
        case (_: JoinRef, Some(f)) => Some(f(at))
        case (ref, _) => now(at, ref, filters(at).domain)
      }
  }

  /** The scan goes on with this partition of its RDD. */
  def reads(partition: Int): Unit = fixed.foreach(_.reads(partition))
  def finish(): Unit = fixed.foreach(_.finish())
}

object ConsumerTask {
  private val tasks = new ConcurrentHashMap[(Long, IndexedSeq[Long]), ConsumerTask]()
  private val byFilter = new ConcurrentHashMap[(Long, Long), ConsumerTask]()

  /** What the running task knows of a filter; None outside of a task, or where nothing is known. */
  def current(filterId: Long): Option[ValueFilter] =
    Option(TaskContext.get())
      .flatMap(c => Option(byFilter.get((c.taskAttemptId(), filterId))))
      .flatMap(_.current(filterId))

  private[scan] def begin(
      filters: IndexedSeq[ApiFilter],
      runs: IndexedSeq[Long],
      ready: ReadyFilters,
      snapshots: Option[ScanSnapshots],
      partition: Int,
      context: TaskContext
  ): Unit = {
    val key = (context.taskAttemptId(), filters.map(_.id))
    if (!tasks.containsKey(key)) {
      val task = new ConsumerTask(filters, runs, ready, snapshots, context)
      tasks.put(key, task)
      filters.foreach(f => byFilter.put((context.taskAttemptId(), f.id), task))
      val execution = TaskFilters.executionId(context)
      ExecutorExchange.start()
      execution.foreach(LocalExchange.instance.enter)
      context.addTaskCompletionListener[Unit] { _ =>
        tasks.remove(key)
        filters.foreach(f => byFilter.remove((context.taskAttemptId(), f.id)))
        execution.foreach(LocalExchange.instance.leave)
        task.finish()
      }
    }
    tasks.get(key).reads(partition)
  }

  /** Tasks with entries; for tests of the life cycle. */
  def live: Int = tasks.size + byFilter.size
}

/** Announces the filters of a custom scan to each task before the scan's own RDD starts. */
final class ConsumerTaskRDD[T: ClassTag](
    prev: RDD[T],
    filters: IndexedSeq[ApiFilter],
    runs: IndexedSeq[Long],
    ready: ReadyFilters,
    snapshots: Option[ScanSnapshots]
) extends RDD[T](prev.sparkContext, Seq(new OneToOneDependency(prev))) {
  override protected def getPartitions: Array[Partition] = firstParent[T].partitions
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    firstParent[T].preferredLocations(split)

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    ConsumerTask.begin(filters, runs, ready, snapshots, split.index, context)
    firstParent[T].iterator(split, context)
  }
}
