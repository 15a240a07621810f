package org.dynamicfilters.state

import org.apache.spark.{SparkContext, TaskContext}
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.settings.Settings

/** The filters of the tasks that run in this process: what links a producer and the scans below it in one task.
  *
  * The producer enters its part when it starts; the scans below it, which it drives, find it there. Entries live from then to
  * the task's completion.
  */
object TaskFilters {

  /** Spark's local property that carries the SQL execution id into tasks. Without it no filter applies (contract 4). */
  val ExecutionIdProperty = "spark.sql.execution.id"

  /** A producer's part in a task. */
  private final class Part {
    // Asked for by the scan's thread, which need not be the one that counts; null until it has begun.
    @volatile var current: TaskTopK = _

    /** How often the task has started to compute the producer. A plan of one partition is computed anew for each partner
      * partition of a cartesian product, even in one task; then only what is shared is sure to be meant for the asking scan.
      */
    @volatile var computations = 0
  }

  // One task attempt starts far fewer computations than this.
  private val MaxComputations = 1L << 20

  /** The SQL execution that the task works for. */
  def executionId(context: TaskContext): Option[Long] =
    Option(context.getLocalProperty(ExecutionIdProperty)).flatMap(_.toLongOption)

  /** The SQL execution that this thread of the driver works for. */
  def executionId(sc: SparkContext): Option[Long] =
    Option(sc.getLocalProperty(ExecutionIdProperty)).flatMap(_.toLongOption)

  /** Whether the task may tell other executors what it learns, and hear of them: Spark puts the session's settings into tasks. */
  def shares(context: TaskContext): Boolean = shares(context.getLocalProperty(Settings.ExchangeEnabled.key))

  /** The same of the queries of this thread of the driver. */
  def shares(sc: SparkContext): Boolean = shares(sc.getLocalProperty(Settings.ExchangeEnabled.key))

  private def shares(value: String): Boolean = !"false".equalsIgnoreCase(value)

  /** Starts a computation of a TopK's input in the running task.
    *
    * @param run
    *   see [[TopKRef.nextRun]]
    * @param partition
    *   of the producer's own input, which need not be the task's: a cartesian product computes one partition in many tasks
    * @param pinned
    *   see [[TaskTopK.pin]]
    * @return
    *   None where the task has no execution id or the execution has ended, unless the bound is pinned: a partition that is
    *   computed again drops the same rows
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
      // Before anybody finds it.
      pinned.foreach(task.pin)
      part.current = task
      part.computations += 1
      task
    }
  }

  /** See [[Execution.lateFilter]]; None where the task's session keeps its executors to themselves. */
  def late(context: TaskContext, filterId: Long): Option[ValueFilter] =
    executionId(context).filter(_ => shares(context)).flatMap(Executions.instance.open).flatMap(_.lateFilter(filterId))

  /** What the running task still needs of a producer's column.
    *
    * @return
    *   None where the producer has not started in this task
    */
  def filter(context: TaskContext, ref: TopKRef, run: Long): Option[ValueFilter] =
    for {
      part <- RunningTasks.find(context).flatMap(_.find[Part](FilterName(ref.id, run)))
      current <- Option(part.current)
    } yield current.filter(own = part.computations == 1)
}
