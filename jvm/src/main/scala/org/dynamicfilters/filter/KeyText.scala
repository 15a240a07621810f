package org.dynamicfilters.filter

import java.time.{Instant, LocalDate, LocalDateTime, LocalTime, ZoneOffset}
import java.time.format.{DateTimeFormatter, DateTimeFormatterBuilder, SignStyle}
import java.time.temporal.{ChronoField, ChronoUnit}

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
    case (DateType, days: Int) => s"DATE'${date(LocalDate.ofEpochDay(days.toLong))}'"
    case (TimestampType, micros: Long) => s"TIMESTAMP'${timestamp(micros)}Z'"
    case (TimestampNTZType, micros: Long) => s"TIMESTAMP_NTZ'${timestamp(micros)}'"
    case (_: YearMonthIntervalType, months: Int) => yearMonth(months)
    case (_: DayTimeIntervalType, micros: Long) => dayTime(micros)
    case (LongType, n: Long) => n.toString
    case (_, nanos: Long) => time(nanos)
    case (_, f: Float) if f.isNaN || f.isInfinite => s"float('$f')"
    case (_, d: Double) if d.isNaN || d.isInfinite => s"double('$d')"
    case (_, d: Decimal) => d.toPlainString
    case (_, s: UTF8String) => string(s)
    case (_, b: Array[Byte]) => binary(b)
    case (_, other) => other.toString
  }

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

  private val yearToDay: DateTimeFormatter = new DateTimeFormatterBuilder()
    .appendValue(ChronoField.YEAR, 4, 10, SignStyle.EXCEEDS_PAD)
    .appendPattern("-MM-dd")
    .toFormatter(java.util.Locale.ROOT)

  private val clock: DateTimeFormatter = new DateTimeFormatterBuilder()
    .appendPattern("HH:mm:ss")
    .appendFraction(ChronoField.NANO_OF_SECOND, 0, 9, true)
    .toFormatter(java.util.Locale.ROOT)

  private def date(d: LocalDate): String = yearToDay.format(d)

  private def timestamp(micros: Long): String = {
    val t = LocalDateTime.ofInstant(Instant.EPOCH.plus(micros, ChronoUnit.MICROS), ZoneOffset.UTC)
    s"${date(t.toLocalDate)} ${clock.format(t)}"
  }

  /** Nanoseconds of the day. A number outside of a day is shown as it is. */
  private def time(nanos: Long): String =
    if (nanos < 0 || nanos >= 24L * 3600 * 1000000000) nanos.toString
    else s"TIME'${clock.format(LocalTime.ofNanoOfDay(nanos))}'"

  // abs is applied to the parts: the least Int and the least Long have no positive counterpart.
  private def yearMonth(months: Int): String = {
    val sign = if (months < 0) "-" else ""
    s"INTERVAL '$sign${math.abs(months / 12)}-${math.abs(months % 12)}' YEAR TO MONTH"
  }

  private def dayTime(micros: Long): String = {
    val sign = if (micros < 0) "-" else ""
    val ofDay = math.abs(micros % 86400000000L)
    s"INTERVAL '$sign${math.abs(micros / 86400000000L)} ${clock.format(LocalTime.ofNanoOfDay(ofDay * 1000))}' DAY TO SECOND"
  }
}
