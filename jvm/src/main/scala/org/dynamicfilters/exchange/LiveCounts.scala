package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._

import org.dynamicfilters.state.{Executions, JoinWaits, RunningBuild, RunningScan, RunningTasks}

/** Counts of what a process holds for running queries, shown by `dynamic_filter_live()`. All are zero when no query
  * runs, the number of threads after ten more seconds.
  */
object LiveCounts {

  /** Counts of any process. */
  def ofProcess: Seq[(String, Long)] = Seq(
    "executions" -> Executions.instance.live.toLong,
    "tasks" -> RunningTasks.live.toLong,
    "scans" -> RunningTasks.liveScans.toLong,
    "threads" -> Thread.getAllStackTraces.keySet.asScala.count(_.getName.startsWith(Worker.Prefix)).toLong
  )

  /** Further counts of the driver.
    *
    * @param exchange None in local mode
    */
  def ofDriver(exchange: Option[DriverExchange]): Seq[(String, Long)] = Seq(
    "waits" -> JoinWaits.waitingNow.toLong,
    "running scans" -> Executions.instance.all[RunningScan].size.toLong,
    "running builds" -> Executions.instance.all[RunningBuild].size.toLong,
    "coordinated executions" -> exchange.fold(0L)(_.coordinator.liveExecutions.toLong)
  ) ++ FilterBroadcasts.blocks().map("broadcast blocks" -> _)

  /** The counters of an executor that are not 0. */
  def ofMessages(counters: ExchangeCounters): Seq[(String, Long)] =
    counters.all.collect { case (c, n) if n > 0 => Messages + c -> n }

  /** Prefix of an executor's counters. */
  val Messages = "executors."
}
