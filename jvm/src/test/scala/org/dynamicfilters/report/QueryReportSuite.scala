package org.dynamicfilters.report

import org.dynamicfilters.state.Producer
import org.scalatest.funsuite.AnyFunSuite

class QueryReportSuite extends AnyFunSuite {

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
