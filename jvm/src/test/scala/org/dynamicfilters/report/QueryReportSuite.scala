package org.dynamicfilters.report

import org.dynamicfilters.filter.KeyLimits
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.state.{JoinState, Producer}
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

  /** Without the mend the only query without filters was the first to go, although it had just ended. */
  test("the newest query without filters stays beside many queries with filters") {
    val reports = new QueryReports
    reports.retained = 2
    (0L until 6L).foreach { id =>
      val report = reports.forExecution(id)
      if (id != 4) report.reject(Rejected(Producer.topk, Nil, Reasons.NoLimit))
      report.sessionId = "s"
      report.ended("finished")
    }
    assert(reports.ofSession("s").map(_.executionId).contains(4L))
  }

  /** Without the mend the report of a cancelled query showed filters that were being built for ever. */
  test("no filter is being built once its query has ended") {
    def shown(state: JoinState, running: Boolean) = {
      val view = JoinRun(state).view(1, running)
      (view.state, view.reason)
    }
    val state = new JoinState(1, nullsMatch = false, KeyLimits(10, 10, 0.01, 1024))
    state.started(2)
    assert(shown(state, running = true) == ((FilterState.building, None)))
    assert(shown(state, running = false) == ((FilterState.registered, Some(Reasons.BuildDidNotFinish))))
  }

  test("a filter that was complete after its scans had started is late, once its query has ended") {
    def ended(scans: JoinState => Unit): Option[Reason] = {
      val state = new JoinState(1, nullsMatch = false, KeyLimits(10, 10, 0.01, 1024))
      state.started(0)
      scans(state)
      assert(JoinRun(state).view(1, running = true).reason.isEmpty)
      JoinRun(state).view(1, running = false).reason
    }
    assert(ended(_.scanStarted(7)).contains(Reasons.TooLate))
    assert(ended { s => s.record.usedFromStart(); s.scanStarted(7) }.isEmpty)
    // Spark did not run the scan.
    assert(ended(_ => ()).isEmpty)
  }

  test("of a query that has ended a report keeps what filters show, not what they hold") {
    val report = new QueryReport(1)
    class Holding extends FilterRecord {
      var shown = Reasons.NotRead
      override def view(executionId: Long, running: Boolean): FilterView =
        FilterView(
          7,
          Producer.topk,
          Seq("k"),
          FilterState.ready,
          Some(shown),
          3,
          FilterText("range", "k < 5", true),
          10
        )
    }
    val held = new Holding
    report.add(held)
    assert(report.filters.contains(held))
    held.shown = Reasons.FewRows
    report.ended("finished")
    held.shown = Reasons.NoValue
    val Seq(kept) = report.filters.toSeq
    assert(kept.isInstanceOf[EndedFilter] && kept.view(1, running = false).reason.contains(Reasons.FewRows))
  }
}
