package org.dynamicfilters.state

import java.util.Properties

import org.apache.spark.{SparkContext, TaskContext}
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.settings.Settings

/** Links a TopK's tap with the scans below it in the same task. The tap registers a [[TaskTopK]] when it starts, and
  * the scans, whose rows it pulls, find it until the task completes.
  */
object TaskFilters {

  /** Spark's local property that carries the SQL execution id into tasks. Without it no filter applies (contract 4). */
  val ExecutionIdProperty = "spark.sql.execution.id"

  /** A producer's part in a task. */
  private final class Part {
    // Read by the scan's thread, which may differ from the counting one; null before the start.
    @volatile var current: TaskTopK = _

    /** Number of computations of the producer in the task. A cartesian product computes one partition several times.
      * Then a scan can use the shared bound only, because the attempt's own bound may belong to another computation.
      */
    @volatile var computations = 0
  }

  // One task attempt starts far fewer computations than this.
  private val MaxComputations = 1L << 20

  /** The SQL execution that the task works for. */
  def executionId(context: TaskContext): Option[Long] = parsed(context.getLocalProperty(ExecutionIdProperty))

  /** The SQL execution that this thread of the driver works for. */
  def executionId(sc: SparkContext): Option[Long] = parsed(sc.getLocalProperty(ExecutionIdProperty))

  /** The SQL execution of a job or stage, by its properties, which may be null. */
  def executionId(properties: Properties): Option[Long] =
    Option(properties).flatMap(p => parsed(p.getProperty(ExecutionIdProperty)))

  private def parsed(id: String): Option[Long] = Option(id).flatMap(_.toLongOption)

  /** Whether the task may exchange bounds with other executors, by its session's setting. */
  def shares(context: TaskContext): Boolean = shares(context.getLocalProperty(Settings.ExchangeEnabled.key))

  /** The same for queries of this thread of the driver. */
  def shares(sc: SparkContext): Boolean = shares(sc.getLocalProperty(Settings.ExchangeEnabled.key))

  private def shares(value: String): Boolean = !"false".equalsIgnoreCase(value)

  /** Starts a computation of a TopK's input in the running task.
    *
    * @param partition of the producer's input, which may differ from the task's: a cartesian product computes one
    *   partition in many tasks
    * @return None if the task has no execution id or the execution has ended, unless the bound is pinned: then a
    *   recomputed partition must drop the same rows
    */
  def start(
      context: TaskContext,
      ref: TopKRef,
      run: Long,
      partition: Int,
      pinned: Option[TopKBound]
  ): Option[TaskTopK] = {
    val name = FilterName(ref.id, run)
    val execution = executionId(context)
    val ofExecution = execution.flatMap(Executions.instance.open(_).flatMap(_.topK(name, ref.spec, shares(context))))
    ofExecution.orElse(pinned.map(_ => new TopKState(ref.spec))).map { shared =>
      val part = RunningTasks.of(context).attach(name)(new Part).getOrElse(new Part)
      // Later computations replace what earlier ones contributed, like later attempts.
      val attempt = context.taskAttemptId() * MaxComputations + part.computations
      val sink = execution.fold[ContributionSink](shared)(TestHooks.current.contributions(_, shared))
      val task = TaskTopK(shared, partition, attempt, sink)
      // Before the scan can find it.
      pinned.foreach(task.pin)
      part.current = task
      part.computations += 1
      task
    }
  }

  /** See [[Execution.lateFilter]]; None where the task's session keeps its executors to themselves. */
  def late(context: TaskContext, filterId: Long): Option[ValueFilter] =
    executionId(context).filter(_ => shares(context)).flatMap(Executions.instance.open).flatMap(_.lateFilter(filterId))

  /** The filter by which the running task still needs rows; None if the producer has not started in this task. */
  def filter(context: TaskContext, ref: TopKRef, run: Long): Option[ValueFilter] =
    for {
      part <- RunningTasks.find(context).flatMap(_.find[Part](FilterName(ref.id, run)))
      current <- Option(part.current)
    } yield current.filter(own = part.computations == 1)
}
