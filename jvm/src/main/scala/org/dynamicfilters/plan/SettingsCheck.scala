package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.SetCommand
import org.dynamicfilters.settings.Settings

/** Refuses `SET spark.dynamicFilters.<no such setting>`, also where the prefix is in another case. Spark itself accepts any key
  * that nobody registered.
  *
  * An analyzer's rule that changes nothing, and no check rule: Spark adds the plan to the errors of these.
  */
object SettingsCheck extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    check(plan)
    plan
  }

  private def check(plan: LogicalPlan): Unit = plan match {
    case s: SetCommand =>
      s.kv.foreach { case (key, value) =>
        if (value.isDefined) Settings.refusal(key).foreach(throw _)
      }
    case _ =>
  }
}
