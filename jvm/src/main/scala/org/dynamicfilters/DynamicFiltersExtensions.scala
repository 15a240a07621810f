package org.dynamicfilters

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.dynamicfilters.exchange.{DriverExchange, ExchangeCounters}
import org.dynamicfilters.connect.ConnectPlugins
import org.dynamicfilters.plan.{
  DynamicFilterColumnarRule,
  DynamicFilterRule,
  PinUserFilters,
  PinnedQueryRule,
  PruneCheck,
  SettingsCheck
}
import org.dynamicfilters.report.ReportFunctions
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
      // In local mode all tasks are in this process.
      val exchange = if (sc.isLocal) None else Some(new DriverExchange(sc, ExchangeCounters.instance))
      running = Some(new Running(sc, by, exchange))
      sc.addSparkListener(new report.QueryListener(sc, exchange))
    }
  }

  private def stopExchange(): Unit = running.flatMap(_.exchange).foreach(_.stop())

  def activation: Option[Activation.Value] = synchronized(running.map(_.by))
}
