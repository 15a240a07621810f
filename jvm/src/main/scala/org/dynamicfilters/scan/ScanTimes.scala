package org.dynamicfilters.scan

import java.util.concurrent.atomic.LongAdder

import org.apache.spark.sql.vectorized.ColumnarBatch

/** How long the rows of a scan take, in this process so far. Thread-safe. */
private[scan] final class ScanTimes {
  private val (rows, nanos) = (new LongAdder, new LongAdder)
  private val (rowsAbove, nanosAbove) = (new LongAdder, new LongAdder)

  /** So many rows of the files took so long, with all that was done with those that were handed on. */
  def took(rows: Long, nanos: Long): Unit = {
    this.rows.add(rows)
    this.nanos.add(nanos)
  }

  /** So many rows that were handed on took so long above the scan. */
  def tookAbove(rows: Long, nanos: Long): Unit = {
    rowsAbove.add(rows)
    nanosAbove.add(nanos)
  }

  /** Nanoseconds a row of the files. */
  def perRow: Double = ScanTimes.ratio(nanos, rows)

  /** Nanoseconds a row above the scan: what is saved with a row that was read and is not handed on. */
  def perRowAbove: Double = ScanTimes.ratio(nanosAbove, rowsAbove)
}

private[scan] object ScanTimes {
  private def ratio(nanos: LongAdder, rows: LongAdder): Double = {
    val n = rows.sum
    if (n == 0) 0 else nanos.sum.toDouble / n
  }

  /** The same batches; what happens between two of them is above the scan. */
  def measured[T](batches: Iterator[T], times: ScanTimes): Iterator[T] = new Iterator[T] {
    private var handedOn = 0L
    private var rows = 0L

    private def isBack(): Unit = if (handedOn != 0) {
      times.tookAbove(rows, System.nanoTime() - handedOn)
      handedOn = 0
    }

    override def hasNext: Boolean = {
      isBack()
      batches.hasNext
    }

    override def next(): T = {
      isBack()
      val batch = batches.next()
      batch match {
        case b: ColumnarBatch if b.numRows > 0 =>
          rows = b.numRows.toLong
          handedOn = System.nanoTime()
        case _ =>
      }
      batch
    }
  }
}
