package org.dynamicfilters.lifecycle

import java.util.{Collections, Map => JMap}

import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext}
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.DynamicFiltersExtensions
import org.dynamicfilters.connect.ConnectPlugins
import org.dynamicfilters.exchange.ExecutorExchange
import org.dynamicfilters.settings.Settings

/** The executor side of `DynamicFiltersPlugin`. */
private[dynamicfilters] final class ExecutorSide extends ExecutorPlugin {
  override def init(context: PluginContext, extraConf: JMap[String, String]): Unit = {
    TestHooksLoader.startExecutor()
    ExecutorExchange.start()
  }

  override def shutdown(): Unit = ExecutorExchange.stop()
}

/** The driver side of `DynamicFiltersPlugin`: adds the session extensions and starts the [[Driver]]. */
private[dynamicfilters] final class DriverSide extends DriverPlugin {
  private val Extensions = "spark.sql.extensions"
  private var context: Option[SparkContext] = None

  override def init(sc: SparkContext, ofPlugin: PluginContext): JMap[String, String] = {
    context = Some(sc)
    val conf = SparkAccess.confOf(sc)
    Driver.settings.size
    Settings.refusalAtStart(conf.getAll).foreach(throw _)
    // Appended, never replaced: Delta and others have extensions of their own.
    val mine = classOf[DynamicFiltersExtensions].getName
    val others = conf.get(Extensions, "").split(",").map(_.trim).filter(_.nonEmpty)
    if (!others.contains(mine)) conf.set(Extensions, (others :+ mine).mkString(","))
    ConnectPlugins.register(conf)
    Driver.start(sc, Activation.plugin)
    Collections.emptyMap()
  }

  override def registerMetrics(applicationId: String, ofPlugin: PluginContext): Unit =
    Driver.totals.toSeq.flatMap(_.all).foreach { case (name, counter) =>
      ofPlugin.metricRegistry.register(name, counter)
    }

  /** Called in addition to the listener's `onApplicationEnd`, whose event Spark may have dropped. */
  override def shutdown(): Unit = context.foreach(Driver.stop)
}
