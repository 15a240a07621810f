package org.dynamicfilters.scan

import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.{KeyDomain, LongDomain}
import org.dynamicfilters.scan.parquet.KeyWindows
import org.dynamicfilters.state.TopKSpec
import org.scalatest.funsuite.AnyFunSuite

class KeyWindowsSuite extends AnyFunSuite {
  private val windows = 500
  private val domain = KeyDomain.forType(LongType).toOption.get.asInstanceOf[LongDomain]
  private val spec = TopKSpec(domain, 1000, ascending = true, nullsFirst = false, tiesFree = true)

  private def parts(readsWhole: Boolean, found: Int => Long): Seq[RowRanges] = {
    val rows = windows * KeyWindows.Rows
    val all = new KeyWindows(spec, domain, rows)
    val v = new OnHeapColumnVector(windows, LongType)
    val numbers = Array.tabulate(windows)(_ * KeyWindows.Rows)
    numbers.indices.foreach(i => v.putLong(i, numbers(i)))
    all.add(v, windows, numbers)
    val parts = new all.WindowBatches(RowRanges.all(rows), readsWhole)
    Iterator.from(0).map(i => parts.next(found(i))).takeWhile(_.isDefined).map(_.get.rows).toSeq
  }

  test("all windows are handed out once, in few parts, also where one row is wanting all the time") {
    Seq(false -> 10, true -> 4).foreach { case (readsWhole, most) =>
      val all = parts(readsWhole, i => if (i == 0) 0 else spec.limit - 1L)
      assert(all.map(_.count).sum == windows * KeyWindows.Rows)
      assert(all.size <= most, all.map(_.count / KeyWindows.Rows))
    }
  }

  test("the first part is small, and where it yields nothing the second is the rest") {
    val all = parts(readsWhole = false, _ => 0)
    assert(all.map(_.count / KeyWindows.Rows) == Seq(2L, windows - 2L))
  }
}
