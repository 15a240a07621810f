package org.dynamicfilters

import org.apache.spark.SparkEnv
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.dynamicfilters.connect.ConnectPlugins
import org.dynamicfilters.hints.{HintPlacement, HintResolution, HintStrategy}
import org.dynamicfilters.lifecycle.{Activation, Driver, ReportFunctions, SparkLines}
import org.dynamicfilters.plan._
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.user.DynamicFilterFunctions

/** `spark.sql.extensions=org.dynamicfilters.DynamicFiltersExtensions`: enough by itself, for places where plugins cannot be
  * set, as a Spark Connect server in the client's own process.
  *
  * Rules, in the order in which a query meets them:
  *   1. parser: nothing. Analysis: [[HintResolution]] reads hints; [[SettingsCheck]] and [[PruneCheck]] refuse what is wrong.
  *   1. normalization, once a query and before Spark looks for cached data: [[PinUserFilters]]; [[UnknownSettings]] warns.
  *   1. optimizer: [[HintPlacement]] moves hints into relations. Planner: [[HintStrategy]] drops what is left of them.
  *   1. physical plan, without adaptive execution: when exchanges are in, and before columnar transitions and the reuse of equal
  *      exchanges, [[DynamicFilterColumnarRule]] runs [[DynamicFilterRule]] on the whole plan, and [[PinnedQueryRule]] after it.
  *   1. physical plan, with adaptive execution: the whole query is one leaf for the columnar rules, so [[PinnedQueryRule]] alone
  *      has something to do. [[DynamicFilterRule]] runs among the query stage preparation rules, on the whole plan, at the start
  *      and whenever it is planned anew; the columnar rules see each stage and then leave joins alone.
  *
  * [[DynamicFilterRule]] plans users' filters first, then TopKs, aggregates and joins.
  *
  * Injects nothing on a Spark line that is not supported.
  */
class DynamicFiltersExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    if (SparkLines.isSupported) InjectedRules.inject(extensions)
}

/** Separate from DynamicFiltersExtensions: Spark loads that class on every Spark line, and these references may not link on
  * an unsupported one.
  */
private object InjectedRules {
  def inject(extensions: SparkSessionExtensions): Unit = {
    Driver.settings.size // registers them
    extensions.injectColumnar { session => started(session); new DynamicFilterColumnarRule }
    extensions.injectQueryStagePrepRule(_ => new DynamicFilterRule(adaptive = true))
    extensions.injectPostHocResolutionRule(_ => SettingsCheck)
    extensions.injectHintResolutionRule(_ => HintResolution)
    extensions.injectOptimizerRule(_ => HintPlacement)
    extensions.injectPlannerStrategy(_ => HintStrategy)
    ReportFunctions.all.foreach(extensions.injectTableFunction)
    extensions.injectPostHocResolutionRule(_ => PruneCheck)
    extensions.injectPlanNormalizationRule(_ => PinUserFilters)
    extensions.injectColumnar(new PinnedQueryRule(_))
    DynamicFilterFunctions.all.foreach(extensions.injectFunction)
    extensions.injectPlanNormalizationRule(_ => new UnknownSettings)
    Option(SparkEnv.get).foreach { env =>
      Settings.refusalAtStart(env.conf.getAll).foreach(throw _)
      ConnectPlugins.register(env.conf)
    }
  }

  private def started(session: SparkSession): Unit = Driver.start(session.sparkContext, Activation.Extensions)
}
