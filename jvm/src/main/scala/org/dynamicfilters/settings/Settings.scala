package org.dynamicfilters.settings

import scala.collection.mutable

import org.apache.spark.SparkEnv
import org.apache.spark.sql.execution.dynamicfilters.{Setting, SettingsRegistry => R, UserError}
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.sql.internal.SQLConf

/** The settings below `spark.dynamicFilters.`, per session and changeable at run time.
  *
  * Registered with Spark on first use: a bad value is refused when it is set.
  */
object Settings {
  val Prefix = "spark.dynamicFilters."

  private val added = mutable.ArrayBuffer.empty[Setting[_]]
  private def add[T](setting: Setting[T]): Setting[T] = { added += setting; setting }

  private def switch(name: String, doc: String): Setting[Boolean] = add(R.boolean(Prefix + name, default = true, doc))
  private def int(name: String, default: Int, least: Int, doc: String): Setting[Int] =
    add(R.int(Prefix + name, default, doc, s"a whole number from $least to 2147483647")(_ >= least))
  private def share(name: String, default: Double, takes: String, doc: String)(valid: Double => Boolean) =
    add(R.double(Prefix + name, default, doc, takes)(valid))

  val Enabled: Setting[Boolean] =
    switch("enabled", "Master switch. If false, no scan is filtered; conditions of user filters stay in the query.")
  val TopKEnabled: Setting[Boolean] =
    switch(
      "topk.enabled",
      "Whether ORDER BY ... LIMIT, also over GROUP BY, and limits by row_number(), rank(), dense_rank() make filters."
    )
  val JoinEnabled: Setting[Boolean] =
    switch(
      "join.enabled",
      "Whether joins make filters: of the keys of one side (build side), for scans of the other (probe side)."
    )
  val AggregateEnabled: Setting[Boolean] =
    switch("aggregate.enabled", "Whether min, max, min_by and max_by make filters.")
  val SubqueryEnabled: Setting[Boolean] =
    switch("subquery.enabled", "Whether comparisons of a column with a scalar subquery make filters.")
  val ExchangeEnabled: Setting[Boolean] =
    switch(
      "exchange.enabled",
      "Whether executors share filters while a query runs. If false, a scan gets a join's filter only at its start."
    )
  val LateMaterialization: Setting[Boolean] =
    switch(
      "lateMaterialization.enabled",
      "Whether scans of Parquet read the filtered columns first, and other columns only for rows that pass."
    )
  val JoinWaitTimeout: Setting[Long] =
    add(
      R.millis(
        Prefix + "join.waitTimeout",
        "10s",
        "Longest time that a scan waits for a join's filter before its tasks start; 0s: scans never wait."
      )
    )
  val JoinMaxBuildRows: Setting[Int] =
    int(
      "join.maxBuildRows",
      2000000,
      least = 1,
      "If a build side has more distinct keys, its filter is only their range: the least and the greatest."
    )
  val InMaxValues: Setting[Int] =
    int(
      "in.maxValues",
      10000,
      least = 0,
      "Largest number of keys that a join's filter keeps as a list. More become a bitmap or a Bloom filter."
    )
  val BloomFpp: Setting[Double] =
    share(
      "bloom.fpp",
      0.01,
      "a number between 0 and 1, both exclusive",
      "False positive rate of Bloom filters of joins."
    )(v => v > 0 && v < 1)
  val MaxFilterBytes: Setting[Long] =
    add(
      R.bytes(
        Prefix + "maxFilterBytes",
        "8m",
        "Largest size of a join's filter. A larger one is replaced by a smaller, less exact form."
      )
    )
  val TopKMaxLimit: Setting[Int] =
    int(
      "topk.maxLimit",
      100000,
      least = 0,
      "Largest LIMIT, OFFSET included, that has a filter; also the largest limit by rank."
    )
  val GiveUp: Setting[Double] =
    share(
      "selectivity.giveUp",
      0.6,
      "a number from 0 to 1",
      "If more than this share of rows passes a filter, it no longer tests single rows; 1: it always does."
    )(v => v >= 0 && v <= 1)
  val RetainedQueries: Setting[Int] =
    int(
      "report.retainedQueries",
      100,
      least = 1,
      "How many queries with a filter the report keeps, and as many without."
    )
  val ShowValues: Setting[Boolean] =
    switch("report.showValues", "Whether reports, plans and logs show values that filters took from the data.")

  /** All settings, in the order of the page. */
  val all: Seq[Setting[_]] = added.toSeq

  def get[T](conf: SQLConf, setting: Setting[T]): T = setting.read(conf)

  /** Whether reports show values of the data. If the application was started with `false`, a session cannot turn it on: users of a
    * server may not be trusted. On the driver.
    */
  def showsValues(conf: SQLConf): Boolean =
    get(conf, ShowValues) && !ofApplication(ShowValues).exists(_.trim.equalsIgnoreCase("false"))

  private def ofApplication(setting: Setting[_]): Option[String] =
    Option(SparkEnv.get).flatMap(_.conf.getOption(setting.key))

  /** Whether a key is below our prefix, or below a likely misspelling of it. Ignores case. */
  def isMeant(key: String): Boolean = LooksLikeOurs.matches(key)

  /** @return the error for a key that looks like a setting and is none; None for any other key */
  def refusal(key: String): Option[UserError] =
    if (!isMeant(key) || R.isRegistered(key)) None
    else {
      val right = inGroup(key)
        .map(name => s" but a group of them: set one, as $Prefix$name")
        .orElse(similar(key).map(name => s"; did you mean $Prefix$name?"))
        .getOrElse("; SET -v lists the settings")
      Some(new UserError("DYNAMIC_FILTER_UNKNOWN_SETTING", s"${UserError.shown(key, 100)}: no such setting$right"))
    }

  /** @return the error for the first of an application's settings that is none or has a wrong value */
  def refusalAtStart(conf: Iterable[(String, String)]): Option[UserError] = conf.iterator
    .flatMap { case (key, value) =>
      refusal(key).orElse(
        all
          .find(_.key == key)
          .flatMap(setting =>
            try { setting.check(value); None }
            catch { case e: UserError => Some(e) }
          )
      )
    }
    .nextOption()

  private val LooksLikeOurs = "(?i)spark\\.dynamic[._-]?filters?(\\..*)?".r
  private def nameOf(key: String): String = key.replaceFirst("(?i)^spark\\.dynamic[._-]?filters?(\\.|$)", "")

  private def names: Seq[String] = all.map(_.key.stripPrefix(Prefix))

  /** The first setting of the key's group. */
  private def inGroup(key: String): Option[String] = {
    val name = nameOf(key)
    names.find(n => name.isEmpty || n.startsWith(name + "."))
  }

  /** The setting that the user probably meant. */
  private def similar(key: String): Option[String] = {
    def plain(name: String) = name.toLowerCase(java.util.Locale.ROOT).replaceAll("[^a-z0-9]", "")
    val name = nameOf(key)
    val wanted = plain(name)
    def distance(name: String) =
      UTF8String.fromString(plain(name)).levenshteinDistance(UTF8String.fromString(wanted))
    def only(found: Seq[String]) = Option.when(found.size == 1)(found.head)
    Option(names.minBy(distance))
      .filter(distance(_) <= math.min(MostTypos, wanted.length / 3))
      .orElse(only(names.filter(n => wanted.nonEmpty && plain(n).startsWith(wanted))))
      .orElse(only(names.filter(n => plain(n.split('.').last) == plain(name.split('.').lastOption.getOrElse("")))))
  }

  /** Letters that may be wrong in a key that is still recognized. */
  private val MostTypos = 3
}
