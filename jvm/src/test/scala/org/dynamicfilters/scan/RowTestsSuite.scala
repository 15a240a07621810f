package org.dynamicfilters.scan

import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.types.LongType
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}
import org.dynamicfilters.filter.{End, KeyDomain, ValueFilter}
import org.dynamicfilters.state.StepTracker
import org.scalatest.funsuite.AnyFunSuite

class RowTestsSuite extends AnyFunSuite {
  private val domain = KeyDomain.forType(LongType).toOption.get

  private def batch(values: Long*): ColumnarBatch = {
    val v = new OnHeapColumnVector(values.size, LongType)
    values.zipWithIndex.foreach { case (x, i) => v.putLong(i, x) }
    new ColumnarBatch(Array[ColumnVector](v), values.size)
  }

  test("rows are always tested by the filters of a snapshot, and others are given up") {
    val tests = new RowTests(IndexedSeq.fill(2)(new StepTracker(0.5)), new ScanReport(1, "driver"), _ == 1)
    def atMost(x: Long) = ValueFilter.Range(domain, None, Some(End(Long.box(x), inclusive = true)), nulls = false)
    val b = batch((1L to 1000L): _*)
    val selector = new RowSelector(tests)
    def run() =
      selector.select(1000, b.column, RowFilters(Seq(RowFilter(0, 0, atMost(999)), RowFilter(1, 0, atMost(990)))))
    (1 to 3).foreach(_ => assert(run().count == 990))
    assert((0 to 1).map(tests.takesNext) == Seq(false, true))
  }
}
