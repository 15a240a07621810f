package org.dynamicfilters.tables

import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Literal}
import org.apache.spark.sql.types._
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}

/** Parses the bounds of a file's column in Delta's log.
  *
  * The text is not exact:
  *   - Timestamps are truncated to milliseconds, and some writers truncate zone offsets to minutes.
  *   - The column's type may have been widened since.
  *   - With deleted rows, a NULL count is exact only if it is 0 or the number of rows.
  *   - Dates before 1582 may be of another calendar, or BC.
  *
  * Strings are truncated, long decimals may have gone through a double, and writers differ in what they say of NaN:
  * columns of these types have no bounds, so their files are opened.
  *
  * @see
  *   Delta's protocol, "Per-file Statistics"
  */
final class StatisticsText private (domain: KeyDomain) {
  import StatisticsText._

  /** @param nulls number of NULLs
    * @param rows of the file, deleted ones included
    */
  def bounds(min: Option[String], max: Option[String], nulls: Option[Long], rows: Option[Long]): ColumnBounds =
    if (nulls.isDefined && nulls == rows) ColumnBounds.onlyNulls
    else {
      val isKnown = !beforeGregorian(min, max)
      def end(text: Option[String], slack: Long) = text.filter(_ => isKnown).flatMap(value).map(key(_, slack)).orNull
      ColumnBounds(end(min, -lost), end(max, lost), mayHaveNulls = !nulls.contains(0L), mayHaveValues = true)
    }

  private def key(value: Any, slack: Long): AnyRef = domain.fromInternal(value match {
    case micros: Long if isTimestamp => math.addExact(micros, slack)
    case other => other
  })

  /** Largest difference between a timestamp and its text, in microseconds. Writers may omit the seconds of a zone
    * offset. Texts whose offset has seconds (Delta 4.4) are not parsed.
    */
  private val lost: Long = if (domain.dataType == TimestampType) MinuteInMicros else MillisInMicros

  private val isTimestamp = domain.dataType == TimestampType || domain.dataType == TimestampNTZType

  /** Whether a date or timestamp is before the Gregorian calendar, or the two are out of order, as in years BC. */
  private def beforeGregorian(min: Option[String], max: Option[String]): Boolean = {
    val values = (min ++ max)
      .flatMap(value)
      .collect {
        case days: Int if domain.dataType == DateType => days * MicrosInDay
        case micros: Long if isTimestamp => micros
      }
      .toSeq
    values.exists(_ < GregorianDay * MicrosInDay) || values != values.sorted
  }

  private def value(text: String): Option[Any] = domain.dataType match {
    case TimestampType if Offset.findFirstIn(text).isEmpty => None
    case other => Option(Cast(Literal(text), other, Some("UTC"), EvalMode.LEGACY).eval())
  }
}

object StatisticsText {
  private val MillisInMicros = 1000L
  private val MinuteInMicros = 60000000L

  /** Digits that a double preserves: JSON numbers with a decimal point may be parsed as doubles, here and by some
    * writers.
    */
  private val ExactDigits = 15

  /** 1582-10-15. With `timeParserPolicy=LEGACY`, texts of older dates may be of another calendar and lack an era. */
  private val GregorianDay = -141427L
  private val MicrosInDay = 86400000000L
  private val Offset = "(Z|[+-]\\d\\d:?\\d\\d)$".r

  /** None for types whose text may give too narrow bounds. */
  def forColumn(field: StructField, domain: KeyDomain): Option[StatisticsText] = field.dataType match {
    case _ if field.metadata.contains("delta.typeChanges") || field.dataType != domain.dataType => None
    case d: DecimalType if d.precision > ExactDigits => None
    case ByteType | ShortType | IntegerType | LongType | _: DecimalType | DateType | TimestampType | TimestampNTZType =>
      Some(new StatisticsText(domain))
    case _ => None
  }
}
