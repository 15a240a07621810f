package org.dynamicfilters.scan

import java.util.{TimeZone, UUID}

import org.apache.spark.sql.internal.SQLConf

/** The settings that change how a stored value is decoded (time zone, calendar), as text.
  *
  * Those of the moment in which Spark makes its reader. A query may have been planned under others, and what it learned would
  * go under a name that later queries take for theirs.
  */
final class Decoding extends Serializable {
  @volatile private var known: Option[String] = None

  /** Spark has made a reader. A plan that is copied may have two, made under different settings, and no text is both's. */
  def readerMade(conf: SQLConf): Unit = synchronized {
    val now = Decoding.of(conf)
    known = known match {
      case Some(before) if before != now => Some(UUID.randomUUID().toString)
      case _ => Some(now)
    }
  }

  /** Whether a reader that was made just now decodes as the scan's own. */
  def isThatOf(conf: SQLConf): Boolean = known.contains(Decoding.of(conf))

  /** Empty before there is a reader, when nothing can have been learned. */
  def text: String = known.getOrElse("")
}

object Decoding {
  private def of(conf: SQLConf): String =
    (Seq(
      SQLConf.SESSION_LOCAL_TIMEZONE,
      SQLConf.PARQUET_INT96_TIMESTAMP_CONVERSION,
      SQLConf.PARQUET_REBASE_MODE_IN_READ,
      SQLConf.PARQUET_INT96_REBASE_MODE_IN_READ,
      SQLConf.CASE_SENSITIVE,
      SQLConf.PARQUET_FIELD_ID_READ_ENABLED
    ).map(e => conf.getConfString(e.key, e.defaultValueString)) ++
      // By which Spark rebases what files of the legacy calendar hold, where they do not name a zone.
      Seq(TimeZone.getDefault.getID)).mkString(";")
}
