package org.dynamicfilters.lifecycle

import scala.collection.concurrent.TrieMap

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler._
import org.apache.spark.sql.connect.service.SparkListenerConnectSessionClosed
import org.apache.spark.sql.execution.{CommandResultExec, ExplainMode, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.command.{DataWritingCommandExec, ExecutedCommandExec}
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution
import org.apache.spark.sql.execution.ui.{SparkListenerSQLExecutionEnd, SparkListenerSQLExecutionStart}
import org.dynamicfilters.connect.ConnectSessions
import org.dynamicfilters.exchange.DriverExchange
import org.dynamicfilters.filter.PluginFailure
import org.dynamicfilters.hints.HintResolution
import org.dynamicfilters.operators.{BuildKeyTapExec, FilteredScan, PinnedQueryExec, PlanNodes, SpecScan, TopKTapExec}
import org.dynamicfilters.plan.{DynamicFilterRule, UserPlanner}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.report.{JoinRun, NoFilter, QueryReport, QueryReports, Rejected, SubqueryRun, TopKRun, UserRun}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state._
import org.dynamicfilters.ui.DynamicFiltersTab

/** Opens the report of a query when it starts. Completes the report and closes the query's filters when it ends, fails or is
  * cancelled.
  */
final class QueryListener private[lifecycle] (sc: SparkContext, totals: QueryTotals)
    extends SparkListener
    with Logging {

  /** `sdf.analyze` marks its query with a tag that begins so. The report of such a query keeps the plan's text. */
  private val AnalyzeTag = "dynamic-filters-"

  override def onOtherEvent(event: SparkListenerEvent): Unit =
    try
      event match {
        case s: SparkListenerSQLExecutionStart =>
          val report = QueryReports.instance.forExecution(s.executionId)
          report.description = s.description
          report.startedMillis = s.time
          report.callSite = s.details
          report.tags = s.jobTags.toSeq.sorted
          report.partOf = s.rootExecutionId.filter(_ != s.executionId)
        case e: SparkListenerSQLExecutionEnd => ended(e)
        case e: SparkListenerConnectSessionClosed => ConnectSessions.closed(e)
        case _ =>
      }
    // Fatal errors are not caught: Spark stops its context for them.
    catch {
      case PluginFailure(e) =>
        logWarning("Dynamic filters: a query is missing from the report", e)
    }

  // Execution ids by job, and by stage.
  private val jobs, stages = TrieMap.empty[Int, Long]

  override def onJobStart(job: SparkListenerJobStart): Unit =
    TaskFilters.executionId(job.properties).foreach(jobs.put(job.jobId, _))

  override def onJobEnd(job: SparkListenerJobEnd): Unit = {
    val execution = jobs.remove(job.jobId)
    if (job.jobResult != JobSucceeded) execution.foreach(JoinWaits.jobFailed)
  }

  override def onStageSubmitted(stage: SparkListenerStageSubmitted): Unit =
    TaskFilters.executionId(stage.properties).foreach(stages.put(stage.stageInfo.stageId, _))

  private def ended(e: SparkListenerSQLExecutionEnd): Unit =
    try {
      val report = QueryReports.instance.forExecution(e.executionId)
      val query = SparkAccess.queryOf(e)
      if (query != null) {
        val session = query.sparkSession
        QueryReports.instance.retained = Settings.get(session.sessionState.conf, Settings.RetainedQueries)
        // Again: an operator of another session's cached plan may have been the first to be reported.
        report.sessionId = SparkAccess.sessionId(session)
        report.showsAs(session)
        report.description = QueryDescription.name(report, query)
        // A query that failed in analysis or planning has no plan. Asking for it would fail again.
        if (e.errorMessage.forall(_.isEmpty)) {
          val plan = query.executedPlan match {
            case p: PinnedQueryExec => p.ranIn(e.executionId).getOrElse(p)
            case other => other
          }
          // A stream's sink may run the plan of its batch in a query of its own, which ended before.
          val ranInPart = query.isInstanceOf[IncrementalExecution] && QueryReports.instance.hasPart(e.executionId)
          if (ranInPart) report.synchronized(report.scans.clear()) else operators(plan).foreach(note(report, _))
          val notFound = HintResolution.notFound(query.analyzed)
          if (notFound.nonEmpty)
            report.reject(Rejected(Producer.user, Nil, Reasons.HintNotFound(notFound.mkString(", "))))
          if (!report.isOfInterest)
            report.noFilter = if (ranInPart) NoFilter.inParts else QueryDescription.noFilter(query)
          if (report.tags.exists(_.contains(AnalyzeTag))) {
            report.plan = query.explainString(ExplainMode.fromString("simple"))
            report.synchronized(report.scans.toVector).foreach(_.countUnopened(e.executionId))
          }
        }
      }
      report.endedMillis = e.time
      report.ended(if (e.errorMessage.forall(_.isEmpty)) "finished" else "failed")
      totals.add(report)
      if (report.isOfInterest) logDebug(s"Dynamic filters: query ${e.executionId} ${report.summary}")
      DynamicFiltersTab.ended(sc, report)
    } finally Executions.instance.close(e.executionId)

  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit =
    DriverExchange.current.foreach(_.executorRemoved(removed.executorId))

  override def onStageCompleted(stage: SparkListenerStageCompleted): Unit = {
    val info = stage.stageInfo
    info.rddInfos.foreach(rdd => RunningStages.ended(rdd.id, well = info.failureReason.isEmpty))
    for (id <- stages.remove(info.stageId); report <- QueryReports.instance.find(id); m <- Option(info.taskMetrics))
      report.addProcessorNanos(m.executorCpuTime + m.executorDeserializeCpuTime)
  }

  /** The operators of a plan, with those in adaptive plans, stages, commands and subqueries. */
  private def operators(plan: SparkPlan): Iterator[SparkPlan] = PlanNodes.reached(plan) { p =>
    p.children ++ p.subqueries ++ (p match {
      case a: AdaptiveSparkPlanExec => Seq(a.executedPlan)
      case s: QueryStageExec => Seq(s.plan)
      // The plan inside a command's result has run already, and has a report of its own.
      case _: ExecutedCommandExec | _: DataWritingCommandExec | _: CommandResultExec => Nil
      case other => other.innerChildren.collect { case inner: SparkPlan => inner }
    })
  }

  /** Adds the filters and scans of a plan to the report. Spark keeps the RDDs of a plan, so nothing is registered when the plan
    * runs a second time; this finds it in the plan.
    */
  private def note(report: QueryReport, node: SparkPlan): Unit = report.synchronized {
    node match {
      case t: TopKTapExec =>
        t.filters.map(_.driverRun).foreach {
          case f: TopKRun => report.add(f)
          case _ =>
        }
      case t: BuildKeyTapExec => t.taps.foreach(tap => report.add(JoinRun(tap.ref.state)))
      case s: SpecScan =>
        s.spec.joins.foreach { case (ref, _) => report.add(JoinRun(ref.state)) }
        s.spec.columns.foreach { c =>
          c.ref match {
            case u: UserRef => noteUser(report, u, c.name, None)
            case s: SubqueryRef =>
              s.state.addColumn(c.shownName)
              report.add(SubqueryRun(s.state))
            case _ =>
          }
        }
        Option(s.spec.driverRun).foreach { run =>
          run.countUnopenedBy(s.countUnopened)
          if (!report.scans.contains(run)) report.scans += run
        }
      case s: FilteredScan => s.joinFilters.foreach { case (ref, _) => report.add(JoinRun(ref.state)) }
      case other =>
        other.getTagValue(DynamicFilterRule.RejectedTag).foreach(report.reject)
        other.getTagValue(UserPlanner.RowsOnlyTag).toSeq.flatten.foreach { rows =>
          noteUser(report, rows.ref, rows.column, Some(rows.reason))
        }
    }
  }

  private def noteUser(report: QueryReport, ref: UserRef, column: String, reason: Option[Reason]): Unit = {
    val state = UserState.of(report.executionId, ref)
    state.addColumn(column)
    reason.foreach(state.addReason)
    report.add(UserRun(state))
  }

  override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit = {
    Driver.stop(sc)
    logDebug(s"Dynamic filters: ${sc.applicationId} ended with ${Executions.instance.live} live executions")
  }
}
