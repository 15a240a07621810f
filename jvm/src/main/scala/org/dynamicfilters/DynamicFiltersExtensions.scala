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
  * Spark's phases, and in them our rules in the order in which a query meets them:
  * {{{
  *   SQL text, DataFrame
  *     |
  *   analysis            HintResolution          reads DYNAMIC_FILTER and NO_DYNAMIC_FILTER
  *     |                 SettingsCheck           refuses SET of a key that is no setting
  *     |                 PruneCheck              refuses dynamic_filter_prune under NOT, OR, CASE
  *     |
  *   normalization       PinUserFilters          one generation of each user filter for the query
  *     |                 UnknownSettings         warns of keys that spark.conf.set took
  *   (cached data is looked up here)
  *     |
  *   optimizer           HintPlacement           moves hints into relations
  *     |                 TopKBelowJoin           repeats a TopK on the preserved side of an outer join
  *     |
  *   planner             HintStrategy            drops hints that are left
  *     |
  *     +-- adaptive execution off ----------------- adaptive execution on --+
  *     |                                                                    |
  *   whole plan, exchanges are in                 whole plan, at the start and after each stage
  *   DynamicFilterColumnarRule                    DynamicFilterRule(adaptive = true)
  *     = DynamicFilterRule(adaptive = false)                                |
  *     |                                          each stage, before it runs
  *     |                                          DynamicFilterColumnarRule, which leaves joins alone
  *     |                                                                    |
  *   whole plan                                   whole plan, which is one leaf here
  *   PinnedQueryRule                              PinnedQueryRule
  *     |                                                                    |
  *   columnar transitions, reuse of exchanges     columnar transitions of each stage
  * }}}
  *
  * [[DynamicFilterRule]] plans in this order: users' filters, values of subqueries, TopKs, aggregates, joins.
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
    extensions.injectPreCBORule(_ => TopKBelowJoin)
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

  private def started(session: SparkSession): Unit = Driver.start(session.sparkContext, Activation.extensions)
}
