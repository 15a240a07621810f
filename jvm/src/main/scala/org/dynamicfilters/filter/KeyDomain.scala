package org.dynamicfilters.filter

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.execution.vectorized.{ConstantColumnVector, WritableColumnVector}
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.ColumnVector
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.reasons.{Reason, Reasons}

/** The order and the representation of the values of one Spark type inside filters.
  *
  * A value inside a filter is a ''key'': a `java.lang.Long` for [[LongDomain]]; a `UTF8String` or a `Decimal` for
  * [[ObjectDomain]]. Keys of BINARY are UTF8Strings too: any bytes, compared as unsigned, equal byte by byte. Readers
  * and sources have bounds in the same order. SQL NULL is null. Keys are immutable. Two domains of the same data type
  * are equal.
  */
sealed trait KeyDomain extends Serializable {

  /** The Spark type. */
  def dataType: DataType

  /** Compares two non-null keys in Spark's order of the type, that of ORDER BY and of the comparison operators. */
  def compare(a: AnyRef, b: AnyRef): Int

  /** The key in a column of a row; null for SQL NULL. A copy of the row's memory. */
  def fromRow(row: SpecializedGetters, ordinal: Int): AnyRef

  /** The key of a Catalyst value, as in `Literal.value` and `InternalRow.get`; null for null. Mutable values are
    * copied. Throws IllegalArgumentException for a value of another type.
    */
  def fromInternal(value: Any): AnyRef

  /** The Catalyst value of a key; null for null. Values that Spark calls equal have one key, so -0.0 comes back as 0.0.
    */
  def toInternal(key: AnyRef): Any

  /** The key as a SQL literal on one line, independent of the session's settings: `50`, `1.5`, `'abc'`,
    * `DATE'2020-01-01'`, `TIMESTAMP'2020-01-01 00:00:00Z'` (UTC), `X'0AFF'`, `NULL`. Strings and binary values are cut
    * after 40 characters.
    */
  final def render(key: AnyRef): String = KeyText.render(dataType, toInternal(key))

  /** Whether a non-null object is the key of a value of the type. */
  def isKey(key: AnyRef): Boolean

  override def equals(other: Any): Boolean = other match {
    case that: KeyDomain => that.dataType == dataType
    case _ => false
  }

  override def hashCode: Int = dataType.hashCode

  override def toString: String = s"KeyDomain(${dataType.catalogString})"

  protected final def unfit(value: Any): IllegalArgumentException =
    new IllegalArgumentException(s"a ${value.getClass.getName} is no value of type ${dataType.catalogString}")
}

object KeyDomain {

  /** Whether values of the type are whole numbers, each of which is the same in every such type. */
  def isInteger(t: DataType): Boolean = t match {
    case ByteType | ShortType | IntegerType | LongType => true
    case _ => false
  }

  /** A copy of a key, which stays valid when the row or vector it was read from is reused. */
  def copied(key: AnyRef): AnyRef = key match {
    // Not clone, which may share the array.
    case s: UTF8String => s.copy()
    case other => other
  }

  /** Whether a number without trailing zeros fits into DECIMAL(precision, scale). Zero always does. */
  def fits(n: java.math.BigDecimal, precision: Int, scale: Int): Boolean =
    n.signum == 0 || (n.scale <= scale && n.precision.toLong - n.scale <= precision - scale)

  /** Whether a Catalyst value survives a conversion to a Java string. Readers and sources convert strings, and replace
    * bytes that are not UTF-8, which may change their order. True for all values that are not strings.
    */
  def isText(value: Any): Boolean = value match {
    case s: UTF8String => s.isValid
    case _ => true
  }

  /** The domain of a type, or why its values cannot be filtered. */
  def forType(dt: DataType): Either[Reason, KeyDomain] = dt match {
    case t if LongDomain.kindOf(t).isDefined => Right(new LongDomain(t))
    case _: DecimalType | BinaryType => Right(new ObjectDomain(dt))
    // CHAR and VARCHAR are subclasses of StringType. Their values may be padded before a comparison.
    case s: StringType if s == StringType => Right(new ObjectDomain(StringType))
    case _: CharType | _: VarcharType => Left(Reasons.Padded(dt.catalogString))
    case _: StringType => Left(Reasons.Collated(dt.catalogString))
    case _ => Left(Reasons.NoOrder(dt.catalogString))
  }

  /** The domain of a type that was checked before. Throws IllegalStateException if its values cannot be filtered. */
  def known(dt: DataType): KeyDomain = forType(dt).fold(why => throw new IllegalStateException(why.text), identity)
}

/** The types of at most 8 bytes, encoded as a Long (the ''code'') whose signed order is Spark's order of the type:
  * boolean (0 and 1), the integers, date (days), the timestamps (microseconds), TIME (nanoseconds), the ANSI intervals
  * (months; microseconds), float and double ([[SortableBits]]) and decimals of up to 18 digits (unscaled value).
  *
  * Made by [[KeyDomain.forType]]; the constructor throws IllegalArgumentException for any other type.
  */
final class LongDomain(val dataType: DataType) extends KeyDomain {
  import LongDomain._

  /** Which getter of a row or vector holds the value. */
  private[filter] val kind: Kind =
    kindOf(dataType).getOrElse(throw new IllegalArgumentException(s"${dataType.catalogString} does not fit in a long"))

  private val (precision, scale) = dataType match {
    case d: DecimalType => (d.precision, d.scale)
    case _ => (0, 0)
  }

  /** The least code of the type. */
  val least: Long = kind.least

  /** The greatest code of the type. */
  val greatest: Long = kind.greatest

  private[filter] def isFloating: Boolean = kind == FloatKind || kind == DoubleKind

  /** Whether the key stands for several values that Spark calls equal but whose bytes differ: zero and NaN of the
    * floating types. A lookup by hash, as in Parquet's bloom filters, cannot find such a key.
    */
  def hasManyEncodings(key: Long): Boolean =
    isFloating && (key == greatest || key == 0L)

  override def compare(a: AnyRef, b: AnyRef): Int = java.lang.Long.compare(long(a), long(b))

  override def fromRow(row: SpecializedGetters, ordinal: Int): AnyRef =
    if (row.isNullAt(ordinal)) null else Long.box(longFromRow(row, ordinal))

  /** The code of a value that is not null, without allocation (decimals excepted). The caller has checked `isNullAt`.
    */
  def longFromRow(row: SpecializedGetters, ordinal: Int): Long = kind match {
    case BooleanKind => if (row.getBoolean(ordinal)) 1L else 0L
    case ByteKind => row.getByte(ordinal).toLong
    case ShortKind => row.getShort(ordinal).toLong
    case IntKind => row.getInt(ordinal).toLong
    case LongKind => row.getLong(ordinal)
    case FloatKind => SortableBits.ofFloat(row.getFloat(ordinal)).toLong
    case DoubleKind => SortableBits.ofDouble(row.getDouble(ordinal))
    case IntDecimalKind | LongDecimalKind => unscaled(row.getDecimal(ordinal, precision, scale))
  }

  /** The code of a value that is not null, in a vector of this data type. The caller has checked `isNullAt`. Nothing is
    * allocated for the vectors that Spark's Parquet reader fills.
    */
  def longFromVector(v: ColumnVector, i: Int): Long = kind match {
    case BooleanKind => if (v.getBoolean(i)) 1L else 0L
    case ByteKind => v.getByte(i).toLong
    case ShortKind => v.getShort(i).toLong
    case IntKind => v.getInt(i).toLong
    case LongKind => v.getLong(i)
    case FloatKind => SortableBits.ofFloat(v.getFloat(i)).toLong
    case DoubleKind => SortableBits.ofDouble(v.getDouble(i))
    case IntDecimalKind | LongDecimalKind =>
      if (!holdsUnscaled(v)) unscaled(v.getDecimal(i, precision, scale))
      else if (kind == IntDecimalKind) v.getInt(i).toLong
      else v.getLong(i)
  }

  override def fromInternal(value: Any): AnyRef = {
    val code: Long = (kind, value) match {
      case (_, null) => return null
      case (BooleanKind, b: Boolean) => if (b) 1L else 0L
      case (ByteKind | ShortKind | IntKind | LongKind, b: Byte) => b.toLong
      case (ShortKind | IntKind | LongKind, s: Short) => s.toLong
      case (IntKind | LongKind, i: Int) => i.toLong
      case (LongKind, l: Long) => l
      case (FloatKind, f: Float) => SortableBits.ofFloat(f).toLong
      case (DoubleKind, d: Double) => SortableBits.ofDouble(d)
      case (IntDecimalKind | LongDecimalKind, d: Decimal) => unscaled(d)
      case _ => throw unfit(value)
    }
    Long.box(code)
  }

  override def toInternal(key: AnyRef): Any =
    if (key == null) null
    else
      kind match {
        case BooleanKind => long(key) != 0L
        case ByteKind => long(key).toByte
        case ShortKind => long(key).toShort
        case IntKind => long(key).toInt
        case LongKind => long(key)
        case FloatKind => SortableBits.toFloat(long(key).toInt)
        case DoubleKind => SortableBits.toDouble(long(key))
        case IntDecimalKind | LongDecimalKind => Decimal.createUnsafe(long(key), precision, scale)
      }

  override def isKey(key: AnyRef): Boolean = key match {
    case l: java.lang.Long => l >= least && l <= greatest && !(isFloating && l == SortableBits.unusedCode)
    case _ => false
  }

  private def long(key: AnyRef): Long = key.asInstanceOf[java.lang.Long].longValue

  /** A Decimal in a row may have another scale than its column's type. Spark adjusts it only when it writes bytes. */
  private def unscaled(d: Decimal): Long =
    if (d.scale == scale) d.toUnscaledLong
    else
      try d.toJavaBigDecimal.setScale(scale).unscaledValue.longValueExact
      catch { case _: ArithmeticException => throw unfit(d) }
}

private[filter] object LongDomain {

  /** How a value is stored, by the getter that reads it.
    *
    * @param least the least code
    * @param greatest the greatest code
    */
  sealed abstract class Kind(val least: Long, val greatest: Long) extends Serializable
  case object BooleanKind extends Kind(0L, 1L)
  case object ByteKind extends Kind(Byte.MinValue.toLong, Byte.MaxValue.toLong)
  case object ShortKind extends Kind(Short.MinValue.toLong, Short.MaxValue.toLong)
  case object IntKind extends Kind(Int.MinValue.toLong, Int.MaxValue.toLong)
  case object LongKind extends Kind(Long.MinValue, Long.MaxValue)
  case object FloatKind
      extends Kind(SortableBits.ofFloat(Float.NegativeInfinity).toLong, SortableBits.ofFloat(Float.NaN).toLong)
  case object DoubleKind extends Kind(SortableBits.ofDouble(Double.NegativeInfinity), SortableBits.ofDouble(Double.NaN))

  /** Decimals of up to 9 and of up to 18 digits, as Spark's own vectors store them. */
  case object IntDecimalKind extends Kind(Int.MinValue.toLong, Int.MaxValue.toLong)
  case object LongDecimalKind extends Kind(Long.MinValue, Long.MaxValue)

  def kindOf(dt: DataType): Option[Kind] = dt match {
    case BooleanType => Some(BooleanKind)
    case ByteType => Some(ByteKind)
    case ShortType => Some(ShortKind)
    case IntegerType | DateType | _: YearMonthIntervalType => Some(IntKind)
    case LongType | TimestampType | TimestampNTZType => Some(LongKind)
    case _: DayTimeIntervalType => Some(LongKind)
    case FloatType => Some(FloatKind)
    case DoubleType => Some(DoubleKind)
    case d: DecimalType if d.precision <= Decimal.MAX_INT_DIGITS => Some(IntDecimalKind)
    case d: DecimalType if d.precision <= Decimal.MAX_LONG_DIGITS => Some(LongDecimalKind)
    // TIME, by its name: its class is new in Spark 4.1 and still marked unstable.
    case t if t.typeName.startsWith("time(") => Some(LongKind)
    case _ => None
  }

  /** Whether a vector's getInt and getLong return a decimal's unscaled value. Those of ORC and Arrow do not. */
  def holdsUnscaled(v: ColumnVector): Boolean =
    v.isInstanceOf[WritableColumnVector] || v.isInstanceOf[ConstantColumnVector]
}

/** The types whose keys are objects: strings of collation UTF8_BINARY and binary values, both ordered by unsigned
  * bytes, and decimals of more than 18 digits.
  *
  * Made by [[KeyDomain.forType]]; the constructor throws IllegalArgumentException for any other type.
  */
final class ObjectDomain(val dataType: DataType) extends KeyDomain {

  private val (precision, scale) = dataType match {
    case d: DecimalType if LongDomain.kindOf(d).isEmpty => (d.precision, d.scale)
    case BinaryType => (0, 0)
    case StringType => (0, 0)
    case t => throw new IllegalArgumentException(s"${t.catalogString} is no type of keys that are objects")
  }

  override def compare(a: AnyRef, b: AnyRef): Int = dataType match {
    case _: DecimalType => a.asInstanceOf[Decimal].compare(b.asInstanceOf[Decimal])
    case _ => a.asInstanceOf[UTF8String].binaryCompare(b.asInstanceOf[UTF8String])
  }

  override def fromRow(row: SpecializedGetters, ordinal: Int): AnyRef =
    if (row.isNullAt(ordinal)) null else copyOf(viewOfRow(row, ordinal))

  /** A Catalyst value that is not null as a key, NOT copied: valid as long as the value. */
  private[dynamicfilters] def view(value: AnyRef): AnyRef = value match {
    case b: Array[Byte] => UTF8String.fromBytes(b)
    case other => other
  }

  /** A non-null value of a row, NOT copied: valid until the row moves on. */
  private[dynamicfilters] def viewOfRow(row: SpecializedGetters, ordinal: Int): AnyRef = dataType match {
    case BinaryType => view(row.getBinary(ordinal))
    case _: DecimalType => row.getDecimal(ordinal, precision, scale)
    case _ => row.getUTF8String(ordinal)
  }

  /** A non-null value of a vector of this data type, NOT copied: valid as long as the vector's batch. */
  def fromVector(v: ColumnVector, i: Int): AnyRef = dataType match {
    case BinaryType => view(v.getBinary(i))
    case _: DecimalType => v.getDecimal(i, precision, scale)
    case _ => v.getUTF8String(i)
  }

  override def fromInternal(value: Any): AnyRef = (dataType, value) match {
    case (_, null) => null
    case (BinaryType, _: Array[Byte]) | (_: DecimalType, _: Decimal) | (_: StringType, _: UTF8String) =>
      copyOf(view(value.asInstanceOf[AnyRef]))
    case _ => throw unfit(value)
  }

  override def toInternal(key: AnyRef): Any = key match {
    case s: UTF8String if dataType == BinaryType => s.getBytes
    case other => other
  }

  /** The key of a view ([[viewOfRow]]), which shares no memory with it. */
  private[filter] def copyOf(view: AnyRef): AnyRef = view match {
    case d: Decimal => ownDecimal(d)
    case other => KeyDomain.copied(other)
  }

  /** A copy at the scale of the type. Decimal is mutable, and one in a row may have another scale. */
  private def ownDecimal(d: Decimal): Decimal =
    if (d.scale == scale) d.clone()
    else
      try Decimal(d.toJavaBigDecimal.setScale(scale), precision, scale)
      catch { case _: ArithmeticException => throw unfit(d) }

  override def isKey(key: AnyRef): Boolean = (dataType, key) match {
    case (BinaryType | _: StringType, _: UTF8String) => true
    case (_: DecimalType, d: Decimal) =>
      KeyDomain.fits(d.toJavaBigDecimal.stripTrailingZeros, precision, scale)
    case _ => false
  }

  /** Whether no value is below this key: the empty string and the empty binary value. */
  private[filter] def isLeast(key: AnyRef): Boolean = key match {
    case s: UTF8String => s.numBytes == 0
    case _ => false
  }
}
