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
    case n: Decimal =>
      val exact = n.toJavaBigDecimal
      val scale = d.dataType.asInstanceOf[DecimalType].scale
      UTF8String.fromBytes((if (exact.scale == scale) exact else exact.setScale(scale)).unscaledValue.toByteArray)
    case _ => throw new IllegalArgumentException(s"no key of ${d.dataType.catalogString}: ${key.getClass.getName}")
  }

  def hash(bytes: UTF8String): Long =
    XXH64.hashUnsafeBytes(bytes.getBaseObject, bytes.getBaseOffset, bytes.numBytes, seed)

  /** @param bytes never changed */
  def key(d: ObjectDomain, bytes: Array[Byte]): AnyRef = d.dataType match {
    case t: DecimalType =>
      Decimal(new java.math.BigDecimal(new java.math.BigInteger(bytes), t.scale), t.precision, t.scale)
    case _ => UTF8String.fromBytes(bytes)
  }
}
