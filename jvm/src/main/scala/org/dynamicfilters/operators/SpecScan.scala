package org.dynamicfilters.operators

import scala.reflect.ClassTag

import org.apache.spark.SparkContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.dynamicfilters.filter.{PluginFailure, ValueFilter}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.report.{QueryReports, SubqueryRun, UserRun}
import org.dynamicfilters.scan._
import org.dynamicfilters.scan.statistics.FileStatistics
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{JoinRef, NamedFilter, TaskFilters, TestHooks, UserRef, UserState}

/** A scan whose tasks get the filters and report what they skipped. Makes its text in EXPLAIN too ([[ScanSpec.describe]]). */
trait SpecScan extends FilteredScan {
  def spec: ScanSpec

  /** For each filter of a subquery, the expressions that its column is compared with. As expressions of the operator they are
    * transformed like the conditions above the scan, and Spark runs their subqueries before `doExecute`. A subquery that is also in
    * a condition runs once.
    */
  def values: Seq[Seq[Expression]]

  /** A copy with the values of the filter that was added last. */
  def withValues(more: Seq[Expression]): SpecScan

  /** None, because plans show the subqueries below the conditions. */
  override def innerChildren: Seq[QueryPlan[_]] = Nil

  protected def table: ScannedTable

  /** The operator's metrics: counters of task reports. */
  protected def counted: Seq[SpecScan.Counted]
  override lazy val metrics: Map[String, SQLMetric] = counted.map(c => c.key -> c.metric(sparkContext)).toMap

  /** Whether the operator counts the child's output rows, because the reader does not. */
  protected def countsRows: Boolean = false

  /** Counts the contents of files that were never opened. Called after the execution, when a report is read. */
  def countUnopened(executionId: Long): Unit = ()

  override def joinFilters: Seq[(JoinRef, ScanPlace)] = spec.joins

  /** Whether filters may drop rows of a batch. */
  protected def testsBatches: Boolean = spec.testsBatches

  // Generated code depends on these vector classes. Batches with dropped rows have other ones.
  override def vectorTypes: Option[Seq[String]] = if (testsBatches) None else child.vectorTypes

  override protected def filterIds: Seq[Long] = spec.filterIds
  override def simpleString(maxFields: Int): String = s"${FilteredScan.Name} ${spec.describe}"
  override def verboseStringWithOperatorId(): String =
    s"""
       |$formattedNodeName
       |Filters: ${spec.describe}
       |""".stripMargin

  /** Computes the filters of subqueries, once. If a value cannot be computed, there is no filter, and the condition above the scan
    * fails as in stock Spark.
    */
  protected def startSubqueries(): Unit = subqueriesStarted
  @transient private lazy val subqueriesStarted: Unit =
    spec.subqueries.zip(values).foreach { case ((ref, _), compared) =>
      ref.state.started(
        try Right(ref.filter(compared.map(_.eval())))
        catch {
          case PluginFailure(e) =>
            logWarning(s"Dynamic filters: $ref is not used, ${e.getClass.getName} while its value was computed")
            Left(Reasons.SubqueryFailed(e))
        }
      )
    }

  /** Filters of joins and subqueries that are complete now, by column. In the types of their build sides, so that one filter on
    * columns of several types is sent once.
    */
  @transient private lazy val ready: IndexedSeq[Option[NamedFilter]] = {
    startSubqueries()
    FilteredScan.complete(spec.filterRefs)
  }

  /** A pruner with these filters and user filters, in the types of the scan's columns. */
  protected def pruner: Pruner = new Pruner(
    spec.columns,
    spec.columns.zip(ready).map { case (column, f) =>
      column.ref match {
        case u: UserRef => column.converted(u.generation)
        case _ => f.fold[ValueFilter](ValueFilter.All)(known => column.converted(known.filter))
      }
    }
  )

  /** Coalesces to one partition if the plan relies on that, as Spark's own scan does. Since Spark 4.3 a scan of one small file may
    * claim a single partition (`spark.sql.optimizer.singleTaskExecution.enabled`), and then no exchange collects its splits.
    */
  protected def asSinglePartition[T: ClassTag](rdd: RDD[T]): RDD[T] =
    if (outputPartitioning != SinglePartition) rdd
    else
      rdd.getNumPartitions match {
        case 0 => sparkContext.parallelize(Seq.empty[T], 1)
        case 1 => rdd
        case _ => rdd.coalesce(1)
      }

  /** The child's RDD with tasks that get the filters. */
  protected def tracked[T: ClassTag](rdd: RDD[T], accumulator: ScanAccumulator): RDD[T] = {
    val m = metrics
    val counts = counted.map(c => c -> m(c.key))
    val finish = (report: ScanReport) => {
      for ((c, metric) <- counts; n = c.of(report) if n > 0) metric += n
      accumulator.add(report)
    }
    // Values, so that tasks do not get the whole plan.
    val (ofScan, sent) = (spec, SentFilters(sparkContext, spec.filterRefs, ready, spec.outputDependsOnFilters))
    started(new ScanTaskRDD(rdd, spec, countsRows, new TaskScan(ofScan, sent, _, finish)))
  }

  /** Counts what the driver has excluded, which no task sees. */
  protected def countOnDriver(accumulator: ScanAccumulator)(count: ScanReport => Unit): Unit = {
    val report = new ScanReport(TaskFilters.executionId(sparkContext).getOrElse(-1L), "driver")
    count(report)
    accumulator.add(report)
    val excluded = counted.map(c => metrics(c.key) -> c.of(report)).filter(_._2 > 0)
    SparkAccess.addOnDriver(sparkContext, TaskFilters.executionId(sparkContext), excluded)
  }

  /** Starts the scan's run and adds it to the reports. */
  protected def startRun(): ScanAccumulator = {
    JobNames.setForQuery(sparkContext)
    TaskFilters.executionId(sparkContext).foreach(TestHooks.current.scanStarts(_, conf))
    startUsers()
    startSubqueries()
    val accumulator = new ScanAccumulator(FileStatistics.instance.offer)
    sparkContext.register(accumulator)
    QueryReports.instance.note(session) { report =>
      val run = new ScanRun(spec.scanId, table, spec.filterIds, accumulator, Some(countUnopened))
      spec.driverRun = run
      report.scans += run
      spec.subqueries.foreach { case (ref, column) =>
        ref.state.addColumn(column)
        ref.state.showValues(Settings.showsValues(conf))
        report.add(SubqueryRun(ref.state))
      }
    }
    accumulator
  }

  private def startUsers(): Unit =
    for {
      execution <- TaskFilters.executionId(sparkContext)
      c <- spec.columns
    } c.ref match {
      case u: UserRef =>
        val state = UserState.of(execution, u)
        state.addColumn(c.name)
        state.showValues(Settings.showsValues(conf))
        u.started(state)
        QueryReports.instance.note(session)(_.add(UserRun(state)))
      case _ =>
    }
}

object SpecScan {

  /** A metric of the operator as `plus - minus` of a report's counters.
    *
    * @param text its name in Spark's UI
    */
  final case class Counted(
      key: String,
      text: String,
      plus: ScanCounter.Value,
      minus: Option[ScanCounter.Value] = None,
      isSize: Boolean = false
  ) {
    def of(report: ScanReport): Long = report(plus) - minus.fold(0L)(report(_))
    def metric(sc: SparkContext): SQLMetric =
      if (isSize) SQLMetrics.createSizeMetric(sc, text) else SQLMetrics.createMetric(sc, text)
  }

  val RowsPruned: Counted =
    Counted("rowsPruned", "rows pruned", ScanCounter.Rows, minus = Some(ScanCounter.RowsOutput))

  val CountedRows: Seq[Counted] = Seq(
    Counted("rows", "rows without dynamic filters", ScanCounter.Rows),
    Counted("rowsOutput", "number of output rows", ScanCounter.RowsOutput),
    Counted("rowsDropped", "rows dropped after they were read", ScanCounter.RowsDropped)
  )
}
