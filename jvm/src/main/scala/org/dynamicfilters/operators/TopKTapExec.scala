package org.dynamicfilters.operators

import org.apache.spark.SparkContext
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.AttributeSet
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.execution.{CodegenSupport, SparkPlan}
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.dynamicfilters.exchange.DriverExchange
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.report.{QueryReports, TopKRun}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state._

/** Learns the bound of the TopK or aggregate above it: counts the rows that pass, and drops rows that cannot be among
  * the best. [[org.dynamicfilters.plan.TopKPlanner]] inserts it.
  *
  * Dropping a row here saves the copy that Spark's TopK makes of each row, even if no scan below can be filtered
  * further.
  *
  * @param filters one filter, or one for each of several min and max. A row is needed if any filter needs it
  * @param keys by filter, ordinal of the key in the child's output
  * @param columns by filter, for reports: the names of its key in the first scan, or of the only filter's key in each
  *   scan
  */
case class TopKTapExec(filters: Seq[TopKRef], keys: Seq[Int], columns: Seq[Seq[String]], child: SparkPlan)
    extends SameOutput
    with CodegenSupport {
  override lazy val metrics: Map[String, SQLMetric] = Map(
    "rowsOutput" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "rowsDropped" -> SQLMetrics.createMetric(sparkContext, "rows dropped by the bound")
  )

  private def name: String = if (filters.head.producer == Producer.topk) "TopKFilter" else "AggregateFilter"
  override def nodeName: String = NodeNames(name, filters.map(_.id))
  override def simpleString(maxFields: Int): String = {
    val bounds = filters.indices.map(i => filters(i).describe(columns(i).headOption.getOrElse(output(keys(i)).name)))
    val limit = if (filters.head.producer == Producer.topk) s", limit=${filters.head.spec.limit}" else ""
    s"$name ${bounds.mkString(" OR ")}$limit"
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val (rows, tap) = (started(child.execute())(Seq(_)), source)
    // The partition index of this RDD, which may differ from the task's: see TaskFilters.start.
    new MappedRDD(rows, (partition, it: Iterator[InternalRow]) => new NeededRows(it, tap.start(partition).rowFilter))
  }

  // Without code generation, Spark would make row objects that the tap then drops.
  override def supportCodegen: Boolean = child match {
    case c: CodegenSupport => c.supportCodegen && keys.forall(k => TopKTap.supportsCodegen(output(k).dataType))
    case _ => false
  }

  override def inputRDDs(): Seq[RDD[InternalRow]] = started(child.asInstanceOf[CodegenSupport].inputRDDs())(identity)

  override protected def doProduce(ctx: CodegenContext): String = {
    // Before the child, so that scans below belong to this run: since Spark 4.3, a union makes its branches' RDDs here.
    runs
    // Replaces the operator's name, which has an id and would defeat the cache of generated code.
    ctx.freshNamePrefix = "dynamicFilter"
    val from = ctx.addReferenceObj("tapSource", source)
    variable = ctx.addMutableState(classOf[TopKTap].getName, "tap", v => s"$v = $from.start(partitionIndex);")
    child.asInstanceOf[CodegenSupport].produce(ctx, this)
  }

  // doConsume evaluates the keys itself. With used inputs, Spark would name a function by the operator.
  override def usedInputs: AttributeSet = AttributeSet.empty

  /** Drops rows inside the generated loop, before a row object is built. */
  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = {
    ctx.freshNamePrefix = "dynamicFilter"
    val evaluated = evaluateRequiredVariables(output, input, AttributeSet(keys.map(output)))
    val needed = keys.zipWithIndex.map { case (k, i) =>
      s"(${input(k).isNull} ? $variable.acceptsNull($i) : $variable.accepts($i, ${input(k).value}))"
    }
    // Not `||`: each filter must count the row, even if another one already needs it.
    s"""
       |do {
       |  $evaluated
       |  if (!$variable.handsOn(${needed.mkString(" | ")})) continue;
       |  ${consume(ctx, input)}
       |} while (false);
     """.stripMargin
  }

  // One run: Spark executes an operator once and keeps its RDD. Generated code gets the source before it is filled.
  @transient private lazy val runs = filters.map(_.nextRun())
  @transient private val source = new TapSource

  // The tap's variable name in the generated code.
  @transient private var variable: String = _

  /** Starts the runs of the filters. Called before the scans below start, which belong to the same run. */
  private def started[A](execute: => A)(rdds: A => Seq[RDD[InternalRow]]): A = {
    runs
    val rows = execute
    val started = filters.indices.map(start)
    if (rdds(rows).exists(SparkAccess.determinism(_) == DeterministicLevel.INDETERMINATE))
      // A retried task might see other rows than were counted (contract 5).
      started.foreach(_.disabled = Some(Reasons.OtherRows))
    else
      source.fill(
        filters.indices.map(i => TopKTapPart(filters(i), runs(i), keys(i), started(i).accumulator)).toArray,
        TapSnapshots(sparkContext, filters, runs),
        longMetric("rowsOutput"),
        longMetric("rowsDropped")
      )
    rows
  }

  private def start(i: Int): TopKRun = {
    val accumulator = new TopKAccumulator
    sparkContext.register(accumulator)
    val started = new TopKRun(filters(i), columns(i), Settings.showsValues(conf), accumulator)
    filters(i).started(started)
    QueryReports.instance.note(session)(_.add(started))
    started
  }

  override protected def withNewChildInternal(newChild: SparkPlan): TopKTapExec = copy(child = newChild)
}

/** Decides with which shared bounds each partition of a tap is computed, by the rule of [[Snapshots]]. */
private object TapSnapshots {

  /** On the driver, when a tap is started.
    *
    * @param runs by filter, see [[TopKRef.nextRun]]
    */
  def apply(sc: SparkContext, filters: Seq[TopKRef], runs: Seq[Long]): SnapshotsRef = {
    val specs = filters.map(_.spec).toIndexedSeq
    val names = filters.zip(runs).map { case (f, run) => FilterName(f.id, run) }.toIndexedSeq
    val none = specs.map(_ => SnapshotFilter.Bound(TopKBound.none))
    def newest(executionId: Option[Long]) =
      executionId.fold(none)(id => names.map(name => SnapshotFilter.Bound(boundNow(id, name))))
    SnapshotsRef(sc, new Snapshots(none, newest, specs))
  }

  private def boundNow(executionId: Long, name: FilterName): TopKBound = DriverExchange.current match {
    case Some(cluster) => cluster.coordinator.bound(executionId, name)
    // All tasks are in this process.
    case None => Executions.instance.topK(executionId, name).fold(TopKBound.none)(_.bound)
  }
}
