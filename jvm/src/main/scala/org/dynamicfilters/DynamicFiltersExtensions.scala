package org.dynamicfilters

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.dynamicfilters.connect.ConnectPlugins
import org.dynamicfilters.exchange._
import org.dynamicfilters.hints.{HintPlacement, HintResolution, HintStrategy}
import org.dynamicfilters.plan.{
  DynamicFilterColumnarRule,
  DynamicFilterRule,
  PinUserFilters,
  PinnedQueryRule,
  PruneCheck,
  SettingsCheck
}
import org.dynamicfilters.report.{QueryReports, ReportFunctions}
import org.dynamicfilters.testing.FaultInjection
import org.dynamicfilters.user.DynamicFilterFunctions

/** `spark.sql.extensions=org.dynamicfilters.DynamicFiltersExtensions`: enough by itself, for places where plugins cannot be
  * set, as a Spark Connect server in the client's own process.
  */
class DynamicFiltersExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    Settings.all.size // registers the settings with Spark before a session reads its configuration
    extensions.injectColumnar { session => started(session); new DynamicFilterColumnarRule }
    extensions.injectQueryStagePrepRule(_ => new DynamicFilterRule(adaptive = true))
    extensions.injectCheckRule(_ => SettingsCheck)
    extensions.injectHintResolutionRule(_ => HintResolution)
    extensions.injectOptimizerRule(_ => HintPlacement)
    extensions.injectPlannerStrategy(_ => HintStrategy)
    ReportFunctions.all.foreach(extensions.injectTableFunction)
    extensions.injectCheckRule(_ => PruneCheck)
    extensions.injectPlanNormalizationRule(_ => PinUserFilters)
    extensions.injectColumnar(new PinnedQueryRule(_))
    DynamicFilterFunctions.all.foreach(extensions.injectFunction)
    Option(SparkEnv.get).foreach(env => ConnectPlugins.register(env.conf))
  }

  private def started(session: SparkSession): Unit = Driver.start(session.sparkContext, Activation.Extensions)
}

/** How the plugin came to run. */
object Activation extends Enumeration {
  val Plugin: Value = Value("plugin")
  val Extensions: Value = Value("extensions")
}

/** The driver's side: hears of queries that start and end. One for each Spark context. */
object Driver {
  private final class Running(val sc: SparkContext, val by: Activation.Value, val exchange: Option[DriverExchange])
  private var running: Option[Running] = None

  /** Idempotent: either entry may come first. */
  def start(sc: SparkContext, by: Activation.Value): Unit = synchronized {
    if (!running.exists(_.sc eq sc)) {
      stopExchange()
      FaultInjection.startDriver(sc)
      // In local mode all tasks are in this process.
      val exchange = if (sc.isLocal) None else Some(new DriverExchange(sc, ExchangeCounters.instance))
      running = Some(new Running(sc, by, exchange))
      sc.addSparkListener(new report.QueryListener(sc, exchange))
    }
  }

  private def stopExchange(): Unit = running.flatMap(_.exchange).foreach(_.stop())

  /** The application has ended: nothing of it stays. */
  def stop(sc: SparkContext): Unit = synchronized {
    if (running.exists(_.sc eq sc)) {
      stopExchange()
      FaultInjection.stop()
      running = None
      LocalExchange.instance.clear()
      RunningScans.clear()
      RunningBuilds.clear()
      FilterBroadcasts.clear()
      QueryReports.instance.clear()
    }
  }

  /** None in local mode. */
  def exchange: Option[DriverExchange] = synchronized(running.flatMap(_.exchange))

  def activation: Option[Activation.Value] = synchronized(running.map(_.by))
}
