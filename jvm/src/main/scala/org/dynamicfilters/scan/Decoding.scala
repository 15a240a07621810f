package org.dynamicfilters.scan

import java.util.{TimeZone, UUID}

import org.apache.spark.sql.internal.SQLConf

/** The settings that change how a stored value is decoded (time zone, calendar), as text. Part of the key of learned
  * statistics ([[ScanSpec.statisticsKey]]).
  *
  * Taken when Spark makes its reader. The query may have been planned under other settings, whose key would be wrong
  * for what it learns.
  */
final class Decoding extends Serializable {
  @volatile private var known: Option[String] = None

  /** Called when Spark has made a reader. A copied plan may have two readers under different settings; a random text
    * keeps their statistics from being found.
    */
  def readerMade(conf: SQLConf): Unit = synchronized {
    val now = Decoding.render(conf)
    known = known match {
      case Some(before) if before != now => Some(UUID.randomUUID().toString)
      case _ => Some(now)
    }
  }

  /** Whether a reader made with these settings decodes as the scan's own reader. */
  def matches(conf: SQLConf): Boolean = known.contains(Decoding.render(conf))

  /** Empty before there is a reader. */
  def text: String = known.getOrElse("")
}

object Decoding {
  private def render(conf: SQLConf): String =
    (Seq(
      SQLConf.SESSION_LOCAL_TIMEZONE,
      SQLConf.PARQUET_INT96_TIMESTAMP_CONVERSION,
      SQLConf.PARQUET_REBASE_MODE_IN_READ,
      SQLConf.PARQUET_INT96_REBASE_MODE_IN_READ,
      SQLConf.CASE_SENSITIVE,
      SQLConf.PARQUET_FIELD_ID_READ_ENABLED
    ).map(e => conf.getConfString(e.key, e.defaultValueString)) ++
      // Spark rebases legacy dates and timestamps in this zone if the file does not name one.
      Seq(TimeZone.getDefault.getID)).mkString(";")
}
