package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.command.SetCommand
import org.dynamicfilters.settings.Settings

/** Refuses `SET spark.dynamicFilters.<no such setting>`. Spark itself accepts any key that nobody registered. */
object SettingsCheck extends (LogicalPlan => Unit) {
  override def apply(plan: LogicalPlan): Unit = plan match {
    case s: SetCommand =>
      s.kv.foreach { case (key, value) =>
        if (value.isDefined) Settings.refusal(key).foreach(message => throw new IllegalArgumentException(message))
      }
    case _ =>
  }
}
