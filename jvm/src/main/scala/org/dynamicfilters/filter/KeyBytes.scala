package org.dynamicfilters.filter

import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The keys of an [[ObjectDomain]] as bytes, the same for equal keys: a string's and a binary value's own, and a decimal's
 * unscaled value (two's complement, big-endian, as short as possible) at the scale of its type.
 *
 * Whatever the type, they are held as a UTF8String: it is a view of bytes anywhere, and equal if the bytes are.
 */
private[dynamicfilters] object KeyBytes {

  /** Part of the format of filters (proto/filters.proto). */
  private val seed = 42L

  /** Not copied where the key has these bytes itself: valid as long as the key. */
  def view(d: ObjectDomain, key: AnyRef): UTF8String = key match {
    case s: UTF8String => s
    case b: Array[Byte] => UTF8String.fromBytes(b)
    case n: Decimal =>
      val exact = n.toJavaBigDecimal
      val scale = d.dataType.asInstanceOf[DecimalType].scale
      UTF8String.fromBytes((if (exact.scale == scale) exact else exact.setScale(scale)).unscaledValue.toByteArray)
    case _ => throw new IllegalArgumentException(s"no key of ${d.dataType.catalogString}: ${key.getClass.getName}")
  }

  def hash(bytes: UTF8String): Long =
    XXH64.hashUnsafeBytes(bytes.getBaseObject, bytes.getBaseOffset, bytes.numBytes, seed)

  /** The key with these bytes, of which none is shared, or why there is none. */
  def key(d: ObjectDomain, bytes: Array[Byte]): Either[String, AnyRef] = d.dataType match {
    case BinaryType => Right(bytes.clone())
    case t: DecimalType => decimal(bytes, t)
    case _ => Right(UTF8String.fromBytes(bytes.clone()))
  }

  private def decimal(data: Array[Byte], t: DecimalType): Either[String, Decimal] =
    // 38 digits fit in 16 bytes; more would only cost time to find out.
    if (data.isEmpty || data.length > 16) Left(s"a key of ${data.length} bytes is no ${t.catalogString}")
    else {
      val unscaled = new java.math.BigDecimal(new java.math.BigInteger(data), t.scale)
      if (unscaled.precision > t.precision) Left(s"a key has too many digits for type ${t.catalogString}")
      else Right(Decimal(unscaled, t.precision, t.scale))
    }
}
