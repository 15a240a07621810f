package org.dynamicfilters.scan.parquet

import java.math.{BigDecimal, BigInteger}
import java.nio.{ByteBuffer, ByteOrder}

import org.apache.parquet.io.api.Binary
import org.apache.parquet.schema.LogicalTypeAnnotation._
import org.apache.parquet.schema.PrimitiveType
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.KeyDomain
import org.dynamicfilters.scan.NaN

/** Converts values that Parquet stores in statistics, page indexes and dictionaries to keys. Used by [[FileColumn]].
  *
  * Exists only for types whose stored order is the order of the keys and whose conversion is the same as Spark's.
  * Values of other types count as unknown. Not covered on purpose: INT96 (no usable statistics), unsigned integers,
  * nanoseconds, decimals of another scale, widening across kinds of types.
  *
  * @param upperReliable false if the stored maximum is not an upper bound: Parquet leaves NaN out, and NaN is Spark's
  *   greatest double
  */
final class ParquetKeys private (
    domain: KeyDomain,
    physical: PrimitiveType,
    val upperReliable: Boolean,
    convert: AnyRef => Any
) {

  /** @param stored Integer, Long, Float, Double, Boolean or Binary, by the physical type
    * @return null if the value is unknown, for example a date that a legacy calendar would change
    */
  def key(stored: AnyRef): AnyRef = {
    val internal = if (stored == null) null else convert(stored)
    if (internal == null) null else domain.fromInternal(internal)
  }

  /** As above, for a plain-encoded value of a page index. */
  def key(stored: ByteBuffer): AnyRef = {
    val b = stored.duplicate().order(ByteOrder.LITTLE_ENDIAN)
    physical.getPrimitiveTypeName match {
      case INT32 => key(Int.box(b.getInt))
      case INT64 => key(Long.box(b.getLong))
      case FLOAT => key(Float.box(b.getFloat))
      case DOUBLE => key(Double.box(b.getDouble))
      case BOOLEAN => key(Boolean.box(b.get() != 0))
      case _ => key(Binary.fromConstantByteBuffer(b))
    }
  }
}

object ParquetKeys {
  // Before these, the legacy (hybrid Julian) calendar reads other days and instants than are stored. The day is
  // 1582-10-15. The instant is 1901-01-01 UTC, because offsets of time zones changed until 1900.
  private val GregorianDay = -141427
  private val SettledMicros = -2177452800000000L

  /** @param legacyCalendar whether the file's dates and timestamps are rebased when read */
  def forType(domain: KeyDomain, file: PrimitiveType, legacyCalendar: Boolean): Option[ParquetKeys] = {
    val annotation = Option(file.getLogicalTypeAnnotation)
    val physical = file.getPrimitiveTypeName
    def signedInteger = annotation.forall { case i: IntLogicalTypeAnnotation => i.isSigned; case _ => false }
    // Wider integers wrap around when read as narrower ones, so their stored order may differ from the order of the
    // values read.
    def signedOfWidth(bits: Int) = annotation.exists {
      case i: IntLogicalTypeAnnotation => i.isSigned && i.getBitWidth <= bits
      case _ => false
    }
    def keys(convert: AnyRef => Any) = Some(new ParquetKeys(domain, file, true, convert))
    def floating(convert: AnyRef => Any) = Some(new ParquetKeys(domain, file, false, convert))
    def number(v: AnyRef) = v.asInstanceOf[Number]

    (domain.dataType, physical) match {
      case (ByteType, INT32) if signedOfWidth(8) => keys(number(_).intValue.toByte)
      case (ShortType, INT32) if signedOfWidth(16) => keys(number(_).intValue.toShort)
      case (IntegerType, INT32) if signedInteger => keys(number(_).intValue)
      case (LongType, INT32 | INT64) if signedInteger => keys(number(_).longValue)
      case (BooleanType, BOOLEAN) => keys(identity)
      // Some writers do not leave NaN out of statistics. It says nothing about the other values.
      case (FloatType, FLOAT) => floating(v => if (NaN.is(v)) null else number(v).floatValue)
      case (DoubleType, FLOAT | DOUBLE) => floating(v => if (NaN.is(v)) null else number(v).doubleValue)
      case (DateType, INT32) if annotation.exists(_.isInstanceOf[DateLogicalTypeAnnotation]) =>
        keys { v =>
          val day = number(v).intValue
          if (legacyCalendar && day < GregorianDay) null else day
        }
      case (TimestampType | TimestampNTZType, INT64) =>
        annotation
          .collect { case t: TimestampLogicalTypeAnnotation => t }
          .filter(t => t.isAdjustedToUTC == (domain.dataType == TimestampType))
          .flatMap { t =>
            val rebased = legacyCalendar && domain.dataType == TimestampType
            def micros(v: Long) = if (rebased && v < SettledMicros) null else Long.box(v)
            t.getUnit match {
              case TimeUnit.MICROS => keys(v => micros(number(v).longValue))
              case TimeUnit.MILLIS =>
                keys { v =>
                  val ms = number(v).longValue
                  if (ms > Long.MaxValue / 1000 || ms < Long.MinValue / 1000) null else micros(ms * 1000)
                }
              case _ => None
            }
          }
      case (d: DecimalType, _) =>
        annotation
          .collect {
            case a: DecimalLogicalTypeAnnotation if a.getScale == d.scale && a.getPrecision <= d.precision => a
          }
          .flatMap { _ =>
            def decimal(unscaled: BigInteger): Any = Decimal(new BigDecimal(unscaled, d.scale), d.precision, d.scale)
            physical match {
              case INT32 | INT64 => keys(v => decimal(BigInteger.valueOf(number(v).longValue)))
              case BINARY | FIXED_LEN_BYTE_ARRAY =>
                keys { v =>
                  val bytes = v.asInstanceOf[Binary].getBytes
                  if (bytes.isEmpty) null else decimal(new BigInteger(bytes))
                }
              case _ => None
            }
          }
      case (_: StringType, BINARY) if annotation.forall {
            case _: StringLogicalTypeAnnotation | _: EnumLogicalTypeAnnotation | _: JsonLogicalTypeAnnotation => true
            case _ => false
          } =>
        keys(v => UTF8String.fromBytes(v.asInstanceOf[Binary].getBytes))
      case (BinaryType, BINARY | FIXED_LEN_BYTE_ARRAY) if annotation.isEmpty =>
        keys(_.asInstanceOf[Binary].getBytes)
      case (_: YearMonthIntervalType, INT32) if signedInteger => keys(number(_).intValue)
      case (_: DayTimeIntervalType, INT64) if signedInteger => keys(number(_).longValue)
      case _ => None
    }
  }
}
