package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.dynamicfilters.SettingsRegistry
import org.dynamicfilters.settings.Settings

/** Warns of keys that Spark took unasked, as `spark.conf.set` does: at the session's next query, once. Changes no plan.
  *
  * A rule of plan normalization, because those run once a query. One for each session.
  */
final class UnknownSettings extends Rule[LogicalPlan] {
  private val told = java.util.concurrent.ConcurrentHashMap.newKeySet[String]()

  override def apply(plan: LogicalPlan): LogicalPlan = {
    SettingsRegistry.keysSet(conf)(Settings.isMeant).filterNot(told.contains).foreach { key =>
      Settings.refusal(key).filter(_ => told.size < UnknownSettings.Most && told.add(key)).foreach { error =>
        logWarning(s"Dynamic filters: ${error.getMessageParameters.get("what")} It has no effect.")
      }
    }
    plan
  }
}

private object UnknownSettings {

  /** Warnings of a session; whoever sets more keys than this that do not exist has been warned. */
  val Most = 100
}
