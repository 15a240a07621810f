package org.dynamicfilters.scan

import org.apache.parquet.column.{ColumnDescriptor, Dictionary}
import org.apache.parquet.column.values.bloomfilter.BloomFilter
import org.apache.parquet.io.api.Binary
import org.apache.parquet.schema.PrimitiveType
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.KeyDomain

/** Values of a dictionary page as objects. */
private[scan] object DictionaryValues {
  def stored(d: Dictionary, column: ColumnDescriptor, id: Int): AnyRef =
    column.getPrimitiveType.getPrimitiveTypeName match {
      case INT32 => Int.box(d.decodeToInt(id))
      case INT64 => Long.box(d.decodeToLong(id))
      case FLOAT => Float.box(d.decodeToFloat(id))
      case DOUBLE => Double.box(d.decodeToDouble(id))
      case BOOLEAN => Boolean.box(d.decodeToBoolean(id))
      case _ => d.decodeToBinary(id)
    }
}

/** Hashes of keys as Parquet's bloom filters take them: of the stored value, hence only where key and stored value are the
  * same thing.
  */
private[scan] object BloomHashes {

  /** @return
    *   None where the stored form of the key is not certain
    */
  def of(bloom: BloomFilter, stored: PrimitiveType, domain: KeyDomain, key: AnyRef): Option[Long] =
    (domain.dataType, stored.getPrimitiveTypeName) match {
      case (ByteType | ShortType | IntegerType | DateType, INT32) =>
        Some(bloom.hash(key.asInstanceOf[java.lang.Long].intValue))
      case (LongType, INT64) => Some(bloom.hash(key.asInstanceOf[java.lang.Long].longValue))
      case (_: StringType, BINARY) =>
        Some(bloom.hash(Binary.fromConstantByteArray(key.asInstanceOf[UTF8String].getBytes)))
      case (BinaryType, BINARY) => Some(bloom.hash(Binary.fromConstantByteArray(key.asInstanceOf[Array[Byte]])))
      case _ => None
    }
}
