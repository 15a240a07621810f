package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._

import org.dynamicfilters.scan.TaskScan
import org.dynamicfilters.state.{JoinWaits, LocalExchange, RunningBuilds, RunningScans, TaskFilters}

/** What a process holds of running queries; shown by `dynamic_filter_live()`. All of it is zero when no query runs, threads ten
  * idle seconds later.
  */
object LiveCounts {

  /** Of whatever process. */
  def ofProcess: Seq[(String, Long)] = Seq(
    "executions" -> LocalExchange.instance.liveExecutions.toLong,
    "tasks" -> TaskFilters.liveTasks.toLong,
    "scans" -> TaskScan.live.toLong,
    "threads" -> Thread.getAllStackTraces.keySet.asScala.count(_.getName.startsWith(Worker.Prefix)).toLong
  )

  /** Of the driver beside that.
    *
    * @param exchange
    *   None in local mode
    */
  def ofDriver(exchange: Option[DriverExchange]): Seq[(String, Long)] = Seq(
    "waits" -> JoinWaits.waitingNow.toLong,
    "running scans" -> RunningScans.live.toLong,
    "running builds" -> RunningBuilds.live.toLong,
    "broadcast blocks" -> FilterBroadcasts.blocks(),
    "coordinated executions" -> exchange.fold(0L)(_.coordinator.liveExecutions.toLong)
  )

  /** One line, for the way to the driver. */
  def text(counts: Seq[(String, Long)]): String = counts.map { case (name, n) => s"$name=$n" }.mkString(",")
  def read(text: String): Seq[(String, Long)] = text
    .split(",")
    .toSeq
    .map(_.split("=", 2))
    .collect { case Array(name, n) if n.toLongOption.isDefined => name -> n.toLong }
}
