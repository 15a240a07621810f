package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.SetCommand
import org.apache.spark.sql.execution.dynamicfilters.SettingsRegistry
import org.dynamicfilters.settings.Settings

/** Refuses `SET spark.dynamicFilters.<unknown setting>`, with the prefix in any case. Spark itself accepts unregistered keys.
  *
  * An analyzer rule that changes nothing. Not a check rule, because Spark adds the plan to the errors of these.
  */
object SettingsCheck extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case s: SetCommand => for ((key, value) <- s.kv if value.isDefined) Settings.refusal(key).foreach(throw _)
      case _ =>
    }
    plan
  }
}

/** Warns once of unknown settings that were set without SQL (`spark.conf.set`), at the session's next query.
  *
  * A rule of plan normalization that changes nothing, because these run once a query. Each session has its own.
  */
final class UnknownSettings extends Rule[LogicalPlan] {
  private val told = java.util.concurrent.ConcurrentHashMap.newKeySet[String]()

  override def apply(plan: LogicalPlan): LogicalPlan = {
    SettingsRegistry.keysSet(conf)(Settings.isMeant).filterNot(told.contains).foreach { key =>
      Settings.refusal(key).filter(_ => told.add(key)).foreach { error =>
        logWarning(s"Dynamic filters: ${error.getMessageParameters.get("what")} It has no effect.")
      }
    }
    plan
  }
}
