package org.dynamicfilters

import org.apache.spark.SparkEnv
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.dynamicfilters.connect.ConnectPlugins
import org.dynamicfilters.hints.{HintPlacement, HintResolution, HintStrategy}
import org.dynamicfilters.lifecycle.{Activation, Driver, ReportFunctions}
import org.dynamicfilters.plan._
import org.dynamicfilters.user.DynamicFilterFunctions

/** `spark.sql.extensions=org.dynamicfilters.DynamicFiltersExtensions`: enough by itself, for places where plugins cannot be
  * set, as a Spark Connect server in the client's own process.
  */
class DynamicFiltersExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    Driver.settings.size // registers them
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
