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

  test("tests that a snapshot decides about are recorded by filter") {
    var seen = Set.empty[(Int, Long, Long)]
    val tests = new RowTests(
      IndexedSeq.fill(3)(new StepTracker(0)),
      new ScanReport(1, "driver"),
      _ => true,
      (filter, before, after) => seen += ((filter, before, after))
    )
    def atMost(x: Long) = ValueFilter.Range(domain, None, Some(End(Long.box(x), inclusive = true)), nulls = false)
    val b = batch((1L to 100L): _*)
    def run(s: RowSelector) =
      s.select(100, b.column, RowFilters(Seq(RowFilter(2, 0, atMost(60)), RowFilter(0, 0, atMost(10)))))
    assert(run(new RowSelector(tests)).count == 10)
    assert(seen == Set((2, 100L, 60L), (0, 60L, 10L)) && (0 to 2).forall(tests.isTaken))
  }
}
