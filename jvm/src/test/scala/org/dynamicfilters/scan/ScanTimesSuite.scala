package org.dynamicfilters.scan

import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.types.LongType
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}
import org.dynamicfilters.filter.{End, KeyDomain, ValueFilter}
import org.scalatest.funsuite.AnyFunSuite

class ScanTimesSuite extends AnyFunSuite {
  private val domain = KeyDomain.of(LongType).toOption.get

  private def batch(values: Long*): ColumnarBatch = {
    val v = new OnHeapColumnVector(values.size, LongType)
    values.zipWithIndex.foreach { case (x, i) => v.putLong(i, x) }
    new ColumnarBatch(Array[ColumnVector](v), values.size)
  }

  test("time between two batches is that of the rows of the first") {
    val times = new ScanTimes
    var inScan = 0L
    def nanos(work: => Unit): Long = { val from = System.nanoTime(); work; System.nanoTime() - from }
    val slowScan = Iterator.fill(3) { inScan += nanos(Thread.sleep(300)); batch(1, 2) }
    val it = ScanTimes.measured(slowScan, times)
    val all = nanos(while (it.hasNext) { it.next(); Thread.sleep(2) })
    assert(times.perRowAbove > 0.9e6 && times.perRowAbove * 6 <= all - inScan, times.perRowAbove)
    assert(times.perRow == 0)
    times.took(10, 1000)
    assert(times.perRow == 100)
  }

  test("what each filter costs and drops, by its place among the scan's; a first pass counts nothing") {
    val costs = new TestCosts(3)
    def atMost(x: Long) = ValueFilter.Range(domain, None, Some(End(Long.box(x), inclusive = true)), nulls = false)
    val b = batch((1L to 100L): _*)
    def run(s: RowSelector) =
      s.select(100, b.column, Seq(RowFilter(2, 0, atMost(60)), RowFilter(0, 0, atMost(10))), Nil)
    assert(run(new RowSelector).count == 10)
    assert(costs.take(1, 5).forall(_.isEmpty))
    assert(run(new RowSelector(costs)).count == 10)
    val Seq(first, none, last) = costs.take(1000, 77)
    assert(first.exists(c => c.spent > 0 && c.saved == 50000 && c.work == 77), first)
    assert(none.isEmpty)
    assert(last.exists(c => c.spent > 0 && c.saved == 40000 && c.work == 77), last)
    assert(costs.take(1, 5).forall(_.isEmpty), "taken once")
  }
}
