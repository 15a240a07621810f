package org.dynamicfilters.scan

import org.scalatest.funsuite.AnyFunSuite

/** What a scan's counts say of its files. */
class ScanReportSuite extends AnyFunSuite {
  private def report: ScanReport = {
    val r = new ScanReport(1, "1")
    r.opened("read")
    r.filesRead += PathHash("read")
    r.opened("of no use")
    r.leftUnopened(PathHash("left"))
    r.leftUnopened(PathHash("left"))
    // Of one split a filter knew enough, of another it did not.
    r.leftUnopened(PathHash("read"))
    r
  }

  test("of a query that came to its end, what was not read was skipped") {
    assert(report.filesPruned(total = 5, cameToEnd = true) == 4)
    assert(report.filesUnopened(total = 5, cameToEnd = true) == 3)
  }

  test("while a query runs, and after it failed, files that were not reached were not skipped") {
    assert(report.filesPruned(total = 5, cameToEnd = false) == 1)
    assert(report.filesUnopened(total = 5, cameToEnd = false) == 1)
    assert(new ScanReport(1, "1").filesPruned(total = 5, cameToEnd = false) == 0)
  }

  test("where the number of files is not known, none is said to be skipped") {
    for (toEnd <- Seq(true, false)) {
      assert(report.filesPruned(total = 0, toEnd) == 0)
      assert(report.filesUnopened(total = 0, toEnd) == 0)
    }
  }

  test("reports of executors are merged") {
    val other = new ScanReport(1, "2")
    other.opened("left")
    val all = report
    all.merge(other)
    assert(all.filesUnopened(total = 5, cameToEnd = false) == 0)
  }
}
