package org.dynamicfilters.testing

import org.apache.spark.sql.execution.dynamicfilters.{Setting, SettingsRegistry => R}
import org.dynamicfilters.settings.Settings.Prefix

/** For tests only; registered with Spark on first use, as `Settings`. */
object FaultSettings {

  /** Whether faults can be injected: of the application, when it starts. */
  val Enabled: Setting[Boolean] = R.staticBoolean(
    Prefix + "testing.faults.enabled",
    default = false,
    "For tests: whether sessions may have faults injected into their queries."
  )

  /** Which faults, see [[FaultSpec]]. */
  val Spec: Setting[String] = R.string(
    Prefix + "testing.faults.spec",
    default = "",
    "For tests: the faults that are injected into this session's queries."
  )(FaultInjection.checked)

  val all: Seq[Setting[_]] = Seq(Enabled, Spec)
}
