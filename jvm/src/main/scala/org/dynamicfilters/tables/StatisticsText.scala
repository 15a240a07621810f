package org.dynamicfilters.tables

import java.math.RoundingMode

import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Literal}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}

/** Parses the bounds of a file's column in Delta's log.
  *
  * The text is not exact:
  *   - Timestamps are truncated to milliseconds, and some writers truncate zone offsets to minutes.
  *   - Strings are truncated to a prefix. The maximum gets a tie-breaking character, which is not the greatest if bytes are not
  *     UTF-8. Invalid bytes in the prefix are replaced.
  *   - Decimals may have gone through a double.
  *   - Some writers count NaN as the maximum, others do not.
  *   - The column's type may have been widened since.
  *   - With deleted rows, only a NULL count of none or all is exact.
  *   - Dates before 1582 may be of another calendar, or BC.
  *
  * @see
  *   Delta's protocol, "Per-file Statistics"
  */
final class StatisticsText private (domain: KeyDomain) {
  import StatisticsText._

  /** @param nulls number of NULLs
    * @param rows of the file, deleted ones included
    * @param isWhole whether no rows were deleted from the file. On a deletion, Delta computes missing statistics from
    *   the footer (`StatsCollectionUtils.computeStats`), and ignores row groups without bounds (because of a NaN or a
    *   long string)
    */
  def bounds(
      min: Option[String],
      max: Option[String],
      nulls: Option[Long],
      rows: Option[Long],
      isWhole: Boolean = true
  ): ColumnBounds =
    if (nulls.isDefined && nulls == rows) ColumnBounds.onlyNulls
    else {
      val isKnown = !beforeGregorian(min, max) && (isWhole || !mayLackBounds)
      def end(of: String => Option[AnyRef], text: Option[String]) = text.filter(_ => isKnown).flatMap(of).orNull
      ColumnBounds(end(least, min), end(greatest, max), mayHaveNulls = !nulls.contains(0L), mayHaveValues = true)
    }

  private def least(text: String): Option[AnyRef] = value(text).map {
    case micros: Long if isTimestamp => key(math.subtractExact(micros, lost(micros)))
    case d: Decimal => widened(d, RoundingMode.FLOOR).map(key).orNull
    case v => key(v)
  }

  private def greatest(text: String): Option[AnyRef] = domain.dataType match {
    case FloatType | DoubleType => None
    case _ =>
      value(text).map {
        case micros: Long if isTimestamp => key(math.addExact(micros, lost(micros)))
        case s: UTF8String => afterAll(s).map(key).orNull
        case d: Decimal => widened(d, RoundingMode.CEILING).map(key).orNull
        case v => key(v)
      }
  }

  /** The least or greatest value that may have been rounded to a double of this text; None outside of the type. */
  private def widened(d: Decimal, to: RoundingMode): Option[Decimal] =
    if (d.precision <= ExactDigits) Some(d)
    else {
      val v = d.toJavaBigDecimal
      val error = v.abs.scaleByPowerOfTen(-ExactDigits)
      val wide = if (to == RoundingMode.FLOOR) v.subtract(error) else v.add(error)
      val end = wide.setScale(d.scale, to)
      Option.when(end.precision <= d.precision)(Decimal(end, d.precision, d.scale))
    }

  /** Largest difference between a timestamp and its text, in microseconds. Writers may omit the seconds of a zone
    * offset. Texts with them (Delta 4.4) are not parsed.
    */
  private def lost(micros: Long): Long =
    if (domain.dataType == TimestampType && micros < WholeMinutes * MicrosInDay) MinuteInMicros else MillisInMicros

  /** A string greater than all strings with the prefix. Delta appends Unicode's greatest character, but invalid bytes
    * after the prefix may be greater.
    */
  private def afterAll(s: UTF8String): Option[UTF8String] =
    if (!s.endsWith(Greatest)) Some(s)
    else {
      val bytes = s.getBytes.dropRight(Greatest.numBytes)
      bytes.lastOption.map { last =>
        bytes(bytes.length - 1) = (last + 1).toByte
        UTF8String.fromBytes(bytes)
      }
    }

  private val mayLackBounds = domain.dataType match {
    case StringType | FloatType | DoubleType => true
    case _ => false
  }

  private val isTimestamp = domain.dataType == TimestampType || domain.dataType == TimestampNTZType

  private def key(value: Any): AnyRef = domain.fromInternal(value)

  /** Whether a date or timestamp is before the Gregorian calendar, or the two are out of order, as years BC without an
    * era are.
    */
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
    case StringType => Option.when(!text.contains(Replacement))(UTF8String.fromString(text))
    case TimestampType if Offset.findFirstIn(text).isEmpty => None
    case other =>
      Option(Cast(Literal(text), other, Some("UTC"), EvalMode.LEGACY).eval())
        .filterNot {
          case f: Float => f.isNaN
          case d: Double => d.isNaN
          case _ => false
        }
  }
}

object StatisticsText {
  private val MillisInMicros = 1000L
  private val MinuteInMicros = 60000000L

  /** 1972-01-08. Since the day before, when Liberia changed its offset, all zone offsets are whole minutes. */
  private val WholeMinutes = 737L

  private val Greatest = UTF8String.fromString("\uDBFF\uDFFF")

  /** Replaces bytes that are not UTF-8, whose order is unknown. Old versions append it to truncated strings. */
  private val Replacement = "\uFFFD"

  /** Digits that a double preserves: JSON numbers with a decimal point may be parsed as doubles, here and by some
    * writers.
    */
  private val ExactDigits = 15

  /** 1582-10-15. With `timeParserPolicy=LEGACY`, texts of older dates may be of another calendar and lack an era. */
  private val GregorianDay = -141427L
  private val MicrosInDay = 86400000000L
  private val Offset = "(Z|[+-]\\d\\d:?\\d\\d)$".r
  private val TypeChanges = "delta.typeChanges"

  /** None for types whose text may give too narrow bounds. */
  def forColumn(field: StructField, domain: KeyDomain): Option[StatisticsText] = field.dataType match {
    case _ if field.metadata.contains(TypeChanges) => None
    case ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType | _: DecimalType | StringType |
        DateType | TimestampType | TimestampNTZType if field.dataType == domain.dataType =>
      Some(new StatisticsText(domain))
    case _ => None
  }
}
