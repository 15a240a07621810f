package org.dynamicfilters.filter

import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The keys of an [[ObjectDomain]] as bytes, the same for equal keys: the bytes of a string or binary value, and a
  * decimal's unscaled value (two's complement, big-endian, as short as possible) at the scale of its type.
  *
  * Bytes of every type are held as a UTF8String, because it is a view of bytes in any memory and compares them.
  */
private[dynamicfilters] object KeyBytes {

  /** Part of the filter format (proto/filters.proto). */
  private val seed = 42L

  /** The bytes of a key. Not copied for strings and binary values, so valid only as long as the key. */
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

  /** The key with a copy of these bytes, or why there is none. */
  def key(d: ObjectDomain, bytes: Array[Byte]): Either[String, AnyRef] = d.dataType match {
    case BinaryType => Right(bytes.clone())
    case t: DecimalType => decimal(bytes, t)
    case _ => Right(UTF8String.fromBytes(bytes.clone()))
  }

  private def decimal(data: Array[Byte], t: DecimalType): Either[String, Decimal] =
    // 38 digits fit into 16 bytes.
    if (data.isEmpty || data.length > 16) Left(s"a key of ${data.length} bytes is no ${t.catalogString}")
    else {
      val unscaled = new java.math.BigDecimal(new java.math.BigInteger(data), t.scale)
      if (unscaled.precision > t.precision) Left(s"a key has too many digits for type ${t.catalogString}")
      else Right(Decimal(unscaled, t.precision, t.scale))
    }
}
