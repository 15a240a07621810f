package org.dynamicfilters.lifecycle

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.dynamicfilters.Setting
import org.dynamicfilters.exchange.{DriverExchange, FilterBroadcasts}
import org.dynamicfilters.report.QueryReports
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{Executions, TestHooks}
import org.dynamicfilters.ui.DynamicFiltersTab
import org.dynamicfilters.user.UserFilters

/** How the plugin came to run. */
object Activation extends Enumeration {
  val plugin, extensions = Value
}

/** Starts and stops the driver's side of the plugin, once for each Spark context. */
object Driver {

  /** All settings of this jar. Reading this value registers them with Spark, so it is read before a session reads its
    * configuration.
    */
  def settings: Seq[Setting[_]] = Settings.all :+ TestHooks.Enabled

  private final class Running(val sc: SparkContext, val by: Activation.Value) {
    val totals = new QueryTotals
  }
  private var running: Option[Running] = None

  /** Starts it. Idempotent: the plugin and the session extensions both call it. */
  def start(sc: SparkContext, by: Activation.Value): Unit = synchronized {
    // A session may be used first after its context was stopped.
    if (!sc.isStopped && !running.exists(_.sc eq sc)) {
      // Spark may have dropped the previous application's end event.
      running.foreach(r => stop(r.sc))
      DriverExchange.stop()
      TestHooksLoader.startDriver(sc)
      DriverExchange.start(sc)
      val started = new Running(sc, by)
      running = Some(started)
      sc.addSparkListener(new QueryListener(sc, started.totals))
      DynamicFiltersTab.attach(sc)
    }
  }

  /** Releases everything, at the end of the application. */
  def stop(sc: SparkContext): Unit = synchronized {
    if (running.exists(_.sc eq sc)) {
      Executions.instance.clear()
      DriverExchange.stop()
      TestHooks.install(None)
      running = None
      FilterBroadcasts.clear()
      QueryReports.instance.clear()
      UserFilters.clear()
    }
  }

  def activation: Option[Activation.Value] = synchronized(running.map(_.by))

  private[lifecycle] def totals: Option[QueryTotals] = synchronized(running.map(_.totals))
}
