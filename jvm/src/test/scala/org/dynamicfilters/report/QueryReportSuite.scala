package org.dynamicfilters.report

import org.dynamicfilters.state.Producer
import org.scalatest.concurrent.TimeLimits
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

class QueryReportSuite extends AnyFunSuite with TimeLimits {

  test("any number of queries that the setting takes may be kept") {
    val reports = new QueryReports
    Seq(Int.MaxValue, 1 << 30, 1).foreach { n =>
      reports.retained = n
      failAfter(Span(10, Seconds))((0L until 5L).foreach(i => reports.forExecution(i)))
    }
  }

  test("of a query that has ended a report keeps what filters show, not what they hold") {
    val report = new QueryReport(1)
    class Holding extends FilterRecord {
      var shown = "before"
      override def view(executionId: Long, running: Boolean): FilterView =
        FilterView(7, Producer.topk, Seq("k"), FilterState.ready, shown, 3, FilterText("range", "k < 5", true), 10)
    }
    val held = new Holding
    report.add(held)
    assert(report.filters.contains(held))
    held.shown = "at the end"
    report.ended("finished")
    held.shown = "after"
    val Seq(kept) = report.filters.toSeq
    assert(kept.isInstanceOf[EndedFilter] && kept.view(1, running = false).reason == "at the end")
  }
}
