package org.dynamicfilters.filter

import org.apache.spark.sql.execution.vectorized.{
  ConstantColumnVector, Dictionary, OffHeapColumnVector, OnHeapColumnVector, WritableColumnVector
}
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarMap}
import org.apache.spark.unsafe.types.UTF8String

/** Column vectors of Catalyst values, in the ways in which readers fill them. */
object Vectors {

  def onHeap(t: DataType, values: Seq[Any]): WritableColumnVector =
    fill(new OnHeapColumnVector(values.size.max(1), t), values)

  def offHeap(t: DataType, values: Seq[Any]): WritableColumnVector =
    fill(new OffHeapColumnVector(values.size.max(1), t), values)

  /** Row i refers to value i of a dictionary, as in Parquet's pages before they are decoded. */
  def dictionaryEncoded(t: DataType, values: Seq[Any]): WritableColumnVector = {
    val v = new OnHeapColumnVector(values.size.max(1), t)
    v.setDictionary(new SeqDictionary(values))
    val ids = v.reserveDictionaryIds(values.size.max(1))
    values.zipWithIndex.foreach { case (x, i) => if (x == null) v.putNull(i) else ids.putInt(i, i) }
    v
  }

  /** Every row has the same value. */
  def constant(t: DataType, value: Any, rows: Int): ColumnVector = {
    val v = new ConstantColumnVector(rows, t)
    value match {
      case null => v.setNull()
      case b: Boolean => v.setBoolean(b)
      case b: Byte => v.setByte(b)
      case s: Short => v.setShort(s)
      case i: Int => v.setInt(i)
      case l: Long => v.setLong(l)
      case f: Float => v.setFloat(f)
      case d: Double => v.setDouble(d)
      case d: Decimal => v.setDecimal(d, t.asInstanceOf[DecimalType].precision)
      case s: UTF8String => v.setUtf8String(s)
      case b: Array[Byte] => v.setBinary(b)
    }
    v
  }

  /** A vector of another data source: it gives decimals as such only. */
  final class Foreign(t: DataType, values: IndexedSeq[Any]) extends ColumnVector(t) {
    override def close(): Unit = ()
    override def hasNull: Boolean = values.contains(null)
    override def numNulls: Int = values.count(_ == null)
    override def isNullAt(i: Int): Boolean = values(i) == null
    override def getBoolean(i: Int): Boolean = values(i).asInstanceOf[Boolean]
    override def getByte(i: Int): Byte = values(i).asInstanceOf[Byte]
    override def getShort(i: Int): Short = values(i).asInstanceOf[Short]
    override def getInt(i: Int): Int = values(i).asInstanceOf[Int]
    override def getLong(i: Int): Long = values(i).asInstanceOf[Long]
    override def getFloat(i: Int): Float = values(i).asInstanceOf[Float]
    override def getDouble(i: Int): Double = values(i).asInstanceOf[Double]
    override def getDecimal(i: Int, precision: Int, scale: Int): Decimal = values(i).asInstanceOf[Decimal]
    override def getUTF8String(i: Int): UTF8String = values(i).asInstanceOf[UTF8String]
    override def getBinary(i: Int): Array[Byte] = values(i).asInstanceOf[Array[Byte]]
    override def getArray(i: Int): ColumnarArray = throw new UnsupportedOperationException
    override def getMap(i: Int): ColumnarMap = throw new UnsupportedOperationException
    override def getChild(i: Int): ColumnVector = throw new UnsupportedOperationException
  }

  private def fill(v: WritableColumnVector, values: Seq[Any]): WritableColumnVector = {
    values.zipWithIndex.foreach {
      case (null, i) => v.putNull(i)
      case (b: Boolean, i) => v.putBoolean(i, b)
      case (b: Byte, i) => v.putByte(i, b)
      case (s: Short, i) => v.putShort(i, s)
      case (x: Int, i) => v.putInt(i, x)
      case (l: Long, i) => v.putLong(i, l)
      case (f: Float, i) => v.putFloat(i, f)
      case (d: Double, i) => v.putDouble(i, d)
      case (d: Decimal, i) => v.putDecimal(i, d, v.dataType.asInstanceOf[DecimalType].precision)
      case (s: UTF8String, i) => v.putByteArray(i, s.getBytes)
      case (b: Array[Byte], i) => v.putByteArray(i, b)
      case (other, _) => throw new IllegalArgumentException(s"no value of a vector: $other")
    }
    v
  }

  private final class SeqDictionary(values: Seq[Any]) extends Dictionary {
    override def decodeToInt(id: Int): Int = values(id) match {
      case b: Byte => b.toInt
      case s: Short => s.toInt
      case i: Int => i
      case d: Decimal => d.toUnscaledLong.toInt
    }
    override def decodeToLong(id: Int): Long = values(id) match {
      case l: Long => l
      case d: Decimal => d.toUnscaledLong
    }
    override def decodeToFloat(id: Int): Float = values(id).asInstanceOf[Float]
    override def decodeToDouble(id: Int): Double = values(id).asInstanceOf[Double]
    override def decodeToBinary(id: Int): Array[Byte] = values(id) match {
      case s: UTF8String => s.getBytes
      case b: Array[Byte] => b
      case d: Decimal => d.toJavaBigDecimal.unscaledValue.toByteArray
    }
  }
}
