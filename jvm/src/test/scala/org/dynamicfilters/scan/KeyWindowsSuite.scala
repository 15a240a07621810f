package org.dynamicfilters.scan

import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.{KeyDomain, LongDomain}
import org.dynamicfilters.scan.parquet.KeyWindows
import org.dynamicfilters.state.TopKSpec
import org.scalatest.funsuite.AnyFunSuite

class KeyWindowsSuite extends AnyFunSuite {
  private val windows = 500
  private val rows = windows * KeyWindows.Rows
  private val domain = KeyDomain.forType(LongType).toOption.get.asInstanceOf[LongDomain]

  /** One row in each window, with the number of the window as its key; NULL in the last one. */
  private def gathered(nullsFirst: Boolean): KeyWindows = {
    val spec = TopKSpec(domain, 1000, ascending = true, nullsFirst, tiesFree = true)
    val all = new KeyWindows(spec, domain, rows)
    val v = new OnHeapColumnVector(windows, LongType)
    val numbers = Array.tabulate(windows)(_ * KeyWindows.Rows)
    numbers.indices.foreach(i => v.putLong(i, i.toLong))
    v.putNull(windows - 1)
    all.add(v, windows, numbers)
    all
  }

  private def count(of: RowRanges): Long = of.count / KeyWindows.Rows

  test("the best windows come first, then all others if there is no bound") {
    val all = gathered(nullsFirst = false)
    assert(all.bestWindows.count == KeyWindows.Best * KeyWindows.Rows && all.bestWindows.start(0) == 0)
    assert(
      count(all.otherWindows(None).better) == windows - KeyWindows.Best && all.bestWindows
        .intersect(all.otherWindows(None).better)
        .isEmpty
    )
  }

  test("windows without a better row than the bound are left out") {
    val all = gathered(nullsFirst = false)
    assert(count(all.otherWindows(Some(Long.box(100))).better) == 100 - KeyWindows.Best)
    assert(all.otherWindows(Some(Long.box(1))).better.isEmpty && all.otherWindows(Some(null)).better.isEmpty)
  }

  test("NULL is the best key if nulls are first") {
    val all = gathered(nullsFirst = true)
    assert(all.bestWindows.end(all.bestWindows.ranges - 1) == rows - 1)
    assert(count(all.otherWindows(Some(Long.box(100))).better) == 100 - (KeyWindows.Best - 1))
  }
}
