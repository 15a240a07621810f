package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._

import org.dynamicfilters.state.{Executions, JoinWaits, RunningBuild, RunningScan, RunningTasks}

/** What a process holds of running queries; shown by `dynamic_filter_live()`. All of it is zero when no query runs, threads ten
  * idle seconds later.
  */
object LiveCounts {

  /** Of whatever process. */
  def ofProcess: Seq[(String, Long)] = Seq(
    "executions" -> Executions.instance.live.toLong,
    "tasks" -> RunningTasks.live.toLong,
    "scans" -> RunningTasks.liveScans.toLong,
    "threads" -> Thread.getAllStackTraces.keySet.asScala.count(_.getName.startsWith(Worker.Prefix)).toLong
  )

  /** Of the driver beside that.
    *
    * @param exchange
    *   None in local mode
    */
  def ofDriver(exchange: Option[DriverExchange]): Seq[(String, Long)] = Seq(
    "waits" -> JoinWaits.waitingNow.toLong,
    "running scans" -> Executions.instance.all[RunningScan].size.toLong,
    "running builds" -> Executions.instance.all[RunningBuild].size.toLong,
    "coordinated executions" -> exchange.fold(0L)(_.coordinator.liveExecutions.toLong)
  ) ++ FilterBroadcasts.blocks().map("broadcast blocks" -> _)

  /** What became of messages, on an executor; without what is 0. */
  def ofMessages(counters: ExchangeCounters): Seq[(String, Long)] =
    counters.all.collect { case (c, n) if n > 0 => Messages + c -> n }

  /** Of executors. */
  val Messages = "executors."

  /** One line, for the way to the driver. */
  def text(counts: Seq[(String, Long)]): String = counts.map { case (name, n) => s"$name=$n" }.mkString(",")
  def read(text: String): Seq[(String, Long)] = text
    .split(",")
    .toSeq
    .map(_.split("=", 2))
    .collect { case Array(name, n) if n.toLongOption.isDefined => name -> n.toLong }
}
