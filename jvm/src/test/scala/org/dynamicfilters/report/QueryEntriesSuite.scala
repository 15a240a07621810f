package org.dynamicfilters.report

import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.scan._
import org.dynamicfilters.state.{FilterTimes, Producer}
import org.dynamicfilters.ui.{LiveQueries, QueryJson}
import org.scalatest.funsuite.AnyFunSuite

class QueryEntriesSuite extends AnyFunSuite {
  private def filter(id: Long, text: FilterText = FilterText("in", "k IN (42)", hasValues = true)) = EndedFilter(
    FilterView(id, Producer.join, Seq("k"), FilterState.ready, None, 1, text, 10, 7, Some(5), FilterTimes(1, 2, 3))
  )

  private def report(id: Long, filters: Int = 1): QueryReport = {
    val r = new QueryReport(id)
    (1 to filters).foreach(i => r.add(filter(i.toLong)))
    r.reject(Rejected(Producer.topk, Seq("s"), Reasons.NoLimit))
    val tasks = new ScanAccumulator(_ => ())
    val counted = new ScanReport(id, "1")
    import ScanCounter._
    Seq(
      RowGroups -> 8L,
      RowGroupsPruned -> 6L,
      Rows -> 800L,
      RowsOutput -> 20L,
      BytesTotal -> 1000L,
      BytesRead -> 1200L
    )
      .foreach { case (counter, n) => counted.add(counter, n) }
    counted.files.read += 1L
    tasks.add(counted)
    r.scans += new ScanRun(3, ScannedTable("t", "parquet", files = 4), Seq(1), tasks)
    r.ended("finished")
    r
  }

  test("values are shown only where the session is known to allow it") {
    val r = report(1)
    r.add(filter(2, FilterText("all", "true", hasValues = false)))
    def shown = QueryEntries.fromReport(r).filters.map(_.expression)
    assert(shown == Seq(ValueFilter.Hidden, "true"))
    r.showValues = Some(false)
    assert(shown == Seq(ValueFilter.Hidden, "true"))
    r.showValues = Some(true)
    assert(shown == Seq("k IN (42)", "true"))
  }

  test("what is known of a filter and a scan") {
    val q = QueryEntries.fromReport(report(1))
    val f = q.filters.head
    assert((f.registered, f.ready, f.used, f.waited) == ((1, 2, 3, 7)))
    assert(f.inForce && q.filtersInForce == 1 && f.reason == "")
    val levels = q.scans.head.levels.map(l => (l.name, l.skipped, l.total))
    // More bytes than there are were read: with some of them twice. None is skipped then, and no share is above all.
    assert(levels == Seq(("files", 3, 4), ("row groups", 6, 8), ("rows", 780, 800), ("bytes", 0, 1000)))
    assert(q.rejected == Seq(RejectedEntry("topk", Seq("s"), "the limit is 0")))
  }

  test("all of it is bounded") {
    val long = "x" * 10000
    val r = report(1, filters = 500)
    r.description = long
    r.add(filter(1000, FilterText("in", long, hasValues = true)))
    (1 to 500).foreach(i => r.reject(Rejected(Producer.join, s"c$i" +: Seq.fill(100)(long), Reasons.Operator(long))))
    val q = QueryEntries.fromReport(r)
    assert(q.filters.size == 100 && q.rejected.size == 100 && q.leftOut == 802)
    assert(q.description.length == QueryEntry.LongestText)
    assert(QueryJson.text(QueryJson.event(q).query).length < 300000)
  }

  test("what has ended stays as the event log has it, and 100 queries of 10 filters are listed fast") {
    val reports = new QueryReports
    (1L to 100L).foreach { id =>
      val r = reports.forExecution(id)
      (1L to 10L).foreach(i => r.add(filter(i)))
    }
    val live = new LiveQueries(reports)
    val first = reports.find(1).get
    first.ended("finished")
    first.description = "changed"
    assert(live.find(1).get.description == "" && live.find(101).isEmpty)
    val from = System.nanoTime()
    val listed = live.newest(0, 100)
    assert((System.nanoTime() - from) / 1000000 < 1000)
    assert(listed.map(_.executionId) == (100L to 1L by -1) && listed.forall(_.filters.size == 10) && live.size == 100)
  }
}
