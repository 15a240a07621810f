package org.dynamicfilters.lifecycle

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.dynamicfilters.Setting
import org.dynamicfilters.exchange.{DriverExchange, FilterBroadcasts}
import org.dynamicfilters.report.QueryReports
import org.dynamicfilters.scan.{ConfBroadcasts, StoredStatistics}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{Executions, TestHooks}
import org.dynamicfilters.ui.DynamicFiltersTab
import org.dynamicfilters.user.UserFilters

/** How the plugin came to run. */
object Activation extends Enumeration {
  val Plugin: Value = Value("plugin")
  val Extensions: Value = Value("extensions")
}

/** The driver's side: hears of queries that start and end. One for each Spark context. */
object Driver {

  /** All settings of this jar; asked for before a session reads its configuration, because that registers them with Spark. */
  def settings: Seq[Setting[_]] = Settings.all :+ TestHooks.Enabled

  private final class Running(val sc: SparkContext, val by: Activation.Value)
  private var running: Option[Running] = None

  /** Idempotent: either entry may come first. */
  def start(sc: SparkContext, by: Activation.Value): Unit = synchronized {
    // A session of a context that was stopped may be used for the first time after that.
    if (!sc.isStopped && !running.exists(_.sc eq sc)) {
      // Its end may have been among the events that Spark dropped.
      running.foreach(r => stop(r.sc))
      DriverExchange.stop()
      TestHooksLoader.startDriver(sc)
      DriverExchange.start(sc)
      running = Some(new Running(sc, by))
      sc.addSparkListener(new QueryListener(sc))
      DynamicFiltersTab.attach(sc)
    }
  }

  /** The application has ended: nothing of it stays. */
  def stop(sc: SparkContext): Unit = synchronized {
    if (running.exists(_.sc eq sc)) {
      Executions.instance.clear()
      StoredStatistics.instance.flush(FlushMillis)
      StoredStatistics.instance.clear()
      ConfBroadcasts.clear()
      DriverExchange.stop()
      TestHooks.install(None)
      running = None
      FilterBroadcasts.clear()
      QueryReports.instance.clear()
      UserFilters.clear()
    }
  }

  /** As long an application's end waits for statistics that are still to be written (`stats.path`). */
  private val FlushMillis = 3000L

  def activation: Option[Activation.Value] = synchronized(running.map(_.by))
}
