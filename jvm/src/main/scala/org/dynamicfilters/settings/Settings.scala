package org.dynamicfilters.settings

import org.apache.spark.sql.execution.dynamicfilters.{Setting, SettingsRegistry => R}
import org.apache.spark.sql.internal.SQLConf

/** The settings below `spark.dynamicFilters.`, per session and changeable at run time.
  *
  * Registered with Spark on first use: a bad value is refused when it is set.
  */
object Settings {
  val Prefix = "spark.dynamicFilters."

  val Enabled: Setting[Boolean] =
    R.boolean(Prefix + "enabled", default = true, "Master switch; false gives exactly Spark's own plan.")
  val TopKEnabled: Setting[Boolean] =
    R.boolean(Prefix + "topk.enabled", default = true, "Whether ORDER BY ... LIMIT filters its scans.")
  val JoinEnabled: Setting[Boolean] =
    R.boolean(Prefix + "join.enabled", default = true, "Whether joins filter the scans of their probe side.")
  val AggregateEnabled: Setting[Boolean] =
    R.boolean(Prefix + "aggregate.enabled", default = true, "Whether min/max aggregates filter their scans.")
  val ExchangeEnabled: Setting[Boolean] = R.boolean(
    Prefix + "exchange.enabled",
    default = true,
    "Whether executors share what they learn while a query runs; false: only what tasks of one process know."
  )
  val LateMaterialization: Setting[Boolean] = R.boolean(
    Prefix + "lateMaterialization.enabled",
    default = true,
    "Read filter columns first, the other columns only for surviving rows."
  )
  val JoinWaitTimeout: Setting[Long] = R.millis(
    Prefix + "join.waitTimeout",
    "10s",
    "Longest time a probe stage may be held back for its filter, without holding a task slot; 0s = never."
  )
  val JoinMaxBuildRows: Setting[Int] = R.int(
    Prefix + "join.maxBuildRows",
    2000000,
    "A build side with more distinct keys than this gives their range only.",
    "a number of rows of at least 1"
  )(_ >= 1)
  val InMaxValues: Setting[Int] = R.int(
    Prefix + "in.maxValues",
    10000,
    "Above it a value set becomes a bitmap (integers, dates) or a bloom filter.",
    "a number of values of at least 0"
  )(_ >= 0)
  val BloomFpp: Setting[Double] =
    R.double(Prefix + "bloom.fpp", 0.01, "False positive rate aimed at.", "a number between 0 and 1, both exclusive")(
      v => v > 0 && v < 1
    )
  val MaxFilterBytes: Setting[Long] = R.bytes(
    Prefix + "maxFilterBytes",
    "8m",
    "A larger encoded filter is reduced to a smaller form, at last to its range."
  )
  val TopKMaxLimit: Setting[Int] = R.int(
    Prefix + "topk.maxLimit",
    100000,
    "Larger LIMITs (offset included) produce no filter.",
    "a number of rows of at least 0"
  )(_ >= 0)
  val GiveUp: Setting[Double] = R.double(
    Prefix + "selectivity.giveUp",
    0.6,
    "A filter that lets more than this share of rows pass stops being evaluated by rows; 1 = never.",
    "a number from 0 to 1"
  )(v => v >= 0 && v <= 1)
  val RetainedQueries: Setting[Int] = R.int(
    Prefix + "report.retainedQueries",
    100,
    "How many queries the report keeps.",
    "a number of queries of at least 1"
  )(_ >= 1)
  val ShowValues: Setting[Boolean] =
    R.boolean(Prefix + "report.showValues", default = true, "false: no data values in reports, plans and logs.")

  val all: Seq[Setting[_]] = Seq(
    Enabled,
    TopKEnabled,
    JoinEnabled,
    AggregateEnabled,
    ExchangeEnabled,
    LateMaterialization,
    JoinWaitTimeout,
    JoinMaxBuildRows,
    InMaxValues,
    BloomFpp,
    MaxFilterBytes,
    TopKMaxLimit,
    GiveUp,
    RetainedQueries,
    ShowValues
  )
  def get[T](conf: SQLConf, setting: Setting[T]): T = setting.read(conf)

  /** @return
    *   a message for a key below the prefix that is no setting, None for any other key
    */
  def refusal(key: String): Option[String] =
    if (!key.startsWith(Prefix) || R.isRegistered(key)) None
    else
      Some(
        s"There is no setting $key. Settings below $Prefix are: ${all.map(_.key.stripPrefix(Prefix)).sorted.mkString(", ")}."
      )
}
