package org.apache.spark.sql.execution.dynamicfilters

import java.nio.ByteBuffer

import org.apache.parquet.bytes.ByteBufferAllocator
import org.apache.parquet.io.{ParquetFileRange, SeekableInputStream}

/** A stream that stays open when a reader closes it that does not own it. */
private[dynamicfilters] final class SharedStream(stream: SeekableInputStream) extends SeekableInputStream {
  override def getPos: Long = stream.getPos
  override def seek(position: Long): Unit = stream.seek(position)
  override def readFully(bytes: Array[Byte]): Unit = stream.readFully(bytes)
  override def readFully(bytes: Array[Byte], start: Int, length: Int): Unit = stream.readFully(bytes, start, length)
  override def read(buffer: ByteBuffer): Int = stream.read(buffer)
  override def readFully(buffer: ByteBuffer): Unit = stream.readFully(buffer)
  override def readVectored(ranges: java.util.List[ParquetFileRange], allocator: ByteBufferAllocator): Unit =
    stream.readVectored(ranges, allocator)
  override def readVectoredAvailable(allocator: ByteBufferAllocator): Boolean = stream.readVectoredAvailable(allocator)
  override def read(): Int = stream.read()
  override def read(bytes: Array[Byte]): Int = stream.read(bytes)
  override def read(bytes: Array[Byte], start: Int, length: Int): Int = stream.read(bytes, start, length)
  override def skip(bytes: Long): Long = stream.skip(bytes)
  override def available(): Int = stream.available()
  override def close(): Unit = ()
}
