package org.dynamicfilters.testing

import org.apache.spark.sql.execution.dynamicfilters.{FaultsAccess, Setting}
import org.dynamicfilters.settings.Settings.Prefix

/** For tests only; registered with Spark on first use, as `Settings`. */
object FaultSettings {

  /** Which faults, see [[FaultSpec]]. */
  val Spec: Setting[String] = FaultsAccess.setting(
    Prefix + "testing.faults.spec",
    default = "",
    "For tests: the faults that are injected into this session's queries."
  )(FaultHooksProvider.checked)
}
