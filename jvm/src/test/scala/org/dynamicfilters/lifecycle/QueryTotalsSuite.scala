package org.dynamicfilters.lifecycle

import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.report.{FilterRecord, FilterState, FilterText, FilterView, QueryReport, Rejected}
import org.dynamicfilters.scan._
import org.dynamicfilters.state.Producer
import org.scalatest.funsuite.AnyFunSuite

class QueryTotalsSuite extends AnyFunSuite {
  import ScanCounter._

  private def filter(generation: Long, reason: Option[Reason] = None): FilterRecord =
    (_: Long, _: Boolean) =>
      FilterView(
        7,
        Producer.join,
        Seq("k"),
        FilterState.ready,
        reason,
        generation,
        FilterText("range", "k < 5", hasValues = true),
        10,
        waitMillis = 30
      )

  private def scan(counts: (ScanCounter, Long)*)(more: ScanReport => Unit): ScanRun = {
    val report = new ScanReport(1, "0")
    counts.foreach { case (c, n) => report.add(c, n) }
    more(report)
    val accumulator = new ScanAccumulator(null)
    accumulator.add(report)
    new ScanRun(3, ScannedTable("t", "parquet"), Seq(7), accumulator)
  }

  private def totals(reports: QueryReport => Unit*): Map[String, Long] = {
    val all = new QueryTotals
    reports.foreach { make =>
      val report = new QueryReport(1)
      make(report)
      report.ended("finished")
      all.add(report)
    }
    all.all.map { case (name, counter) => name -> counter.getCount }.filter(_._2 > 0).toMap
  }

  private def none(report: ScanReport): Unit = ()

  test("a query counts as helped if a filter was in force and rows were skipped") {
    val skips = (r: QueryReport) => { r.scans += scan(Rows -> 9, RowsOutput -> 2)(none); () }
    assert(
      totals { r => skips(r); r.add(filter(1)) } ==
        Map("queriesFiltered" -> 1, "queriesHelped" -> 1, "rowsSpared" -> 7, "waitMillis" -> 30)
    )
    assert(!totals { r => skips(r); r.add(filter(0)) }.contains("queriesHelped"))
    assert(!totals(_.add(filter(1))).contains("queriesHelped"))
  }

  test("bytes that were read again are not spared") {
    val run = (r: QueryReport) => { r.scans += scan(BytesTotal -> 100, BytesRead -> 30, BytesReadAgain -> 5)(none); () }
    assert(totals(run, run) == Map("queriesFiltered" -> 2, "bytesTotal" -> 200, "bytesSpared" -> 130))
  }

  test("failures of a filter, a planner or a scan count, other reasons do not") {
    val failure = Reasons.Failed(new IllegalStateException("test"), "a test")
    def failed(reason: Reason) = Seq[QueryReport => Unit](
      _.add(filter(1, Some(reason))),
      _.reject(Rejected(Producer.topk, Nil, reason)),
      r => { r.scans += scan()(_.addReason(reason)); () }
    ).map(totals(_).getOrElse("queriesFailedOpen", 0L))
    assert(failed(failure) == Seq(1, 1, 1))
    assert(failed(Reasons.NotAsked) == Seq(0, 0, 0))
  }
}
