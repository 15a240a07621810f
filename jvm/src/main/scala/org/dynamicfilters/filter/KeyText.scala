package org.dynamicfilters.filter

import java.time.{LocalDate, ZoneOffset}

import org.apache.spark.sql.catalyst.util.{IntervalStringStyles, IntervalUtils, TimeFormatter, TimestampFormatter}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Renders values as SQL literals for [[KeyDomain.render]]. Independent of the session's time zone and ANSI mode, so
  * that a filter reads the same in the driver's plan, an executor's log and the report.
  */
private[filter] object KeyText {

  /** Longest text of a string or binary value, in characters. Longer texts are cut and end in `…`. */
  val maxChars = 40

  /** `value` is a Catalyst value of type `dt`. */
  def render(dt: DataType, value: Any): String = (dt, value) match {
    case (_, null) => "NULL"
    case (DateType, days: Int) => s"DATE'${LocalDate.ofEpochDay(days.toLong)}'"
    case (TimestampType, micros: Long) => s"TIMESTAMP'${timestamps.format(micros)}Z'"
    case (TimestampNTZType, micros: Long) => s"TIMESTAMP_NTZ'${timestamps.format(micros)}'"
    case (_: YearMonthIntervalType, months: Int) =>
      import YearMonthIntervalType._
      IntervalUtils.toYearMonthIntervalString(months, IntervalStringStyles.ANSI_STYLE, YEAR, MONTH)
    case (_: DayTimeIntervalType, micros: Long) =>
      import DayTimeIntervalType._
      IntervalUtils.toDayTimeIntervalString(micros, IntervalStringStyles.ANSI_STYLE, DAY, SECOND)
    case (t, nanos: Long) if t != LongType && nanos >= 0 && nanos < NanosOfDay => s"TIME'${times.format(nanos)}'"
    case (_, f: Float) if f.isNaN || f.isInfinite => s"float('$f')"
    case (_, d: Double) if d.isNaN || d.isInfinite => s"double('$d')"
    case (_, d: Decimal) => d.toPlainString
    case (_, s: UTF8String) => string(s)
    case (_, b: Array[Byte]) => binary(b)
    case (_, other) => other.toString
  }

  private val timestamps = TimestampFormatter.getFractionFormatter(ZoneOffset.UTC)
  private val times = TimeFormatter.getFractionFormatter()
  private val NanosOfDay = 24L * 3600 * 1000000000

  private def string(s: UTF8String): String = {
    // substring counts code points, so no character is cut in two.
    val cut = if (s.numChars > maxChars) s.substring(0, maxChars).toString + "…" else s.toString
    cut
      .flatMap {
        case '\\' => "\\\\"
        case '\'' => "\\'"
        case '\n' => "\\n"
        case '\r' => "\\r"
        case '\t' => "\\t"
        case c if c.isControl => f"\\u${c.toInt}%04x"
        case c => c.toString
      }
      .mkString("'", "", "'")
  }

  private def binary(b: Array[Byte]): String = {
    val hex = b.iterator.take(maxChars / 2).map(x => f"${x & 0xff}%02X").mkString
    if (b.length * 2L > maxChars) s"X'$hex…'" else s"X'$hex'"
  }
}
