package org.dynamicfilters.report

import org.dynamicfilters.reasons.Reasons
import org.scalatest.funsuite.AnyFunSuite

class QuerySummarySuite extends AnyFunSuite {
  private val ready = FilterEntry("1", "topk", Seq("k"), "ready", "range", "k <= 5", generation = 2, bytes = 8)
  private val waiting = ready.copy(state = "registered", generation = 0, reason = Reasons.FewRows.text)
  private val rejected = RejectedEntry("aggregate", Seq("v"), Reasons.NoLimit.text)

  private def scanned(levels: (String, Int, Int)*) =
    ScanEntry(
      "1",
      levels = levels.map { case (name, skipped, total) => LevelEntry(name, skipped.toLong, total.toLong) }
    )
  import LevelEntry._
  private val scan = scanned((Files, 3, 4), (Rows, 500, 2000), (Bytes, 9, 10))
  private val all = scanned((Files, 0, 4), (RowGroups, 0, 8), (Rows, 0, 2000), (Bytes, 0, 10))

  private def text(filters: Seq[FilterEntry], scans: Seq[ScanEntry], no: RejectedEntry*) =
    QuerySummary.of(QueryEntry(1, filters = filters, scans = scans, rejected = no), NoFilter.nothingMakesOne)

  test("filters in force come first, then what they did; what was rejected beside them is no alarm") {
    val effect = "read 10 % of the bytes, skipped 3 of 4 files and 25 % of the rows"
    assert(text(Seq(ready), Seq(scan)) == s"1 filter in force: $effect")
    assert(text(Seq(ready, ready, ready), Seq(scan), rejected) == s"3 filters in force: $effect")
    assert(text(Seq(ready, waiting), Seq(scan)) == s"1 filter in force, 1 without a value: $effect")
    assert(
      text(Seq(ready), Seq(scan, all)) ==
        "1 filter in force: read 55 % of the bytes, skipped 3 of 8 files and 13 % of the rows"
    )
    assert(text(Seq(ready), Seq(scanned())) == "1 filter in force")
  }

  test("a filter that skips rows but no row group tells of the data") {
    val rows = scanned((Files, 0, 4), (RowGroups, 0, 8), (Rows, 1960, 2000), (Bytes, 0, 10))
    assert(
      text(Seq(ready), Seq(rows)) == "1 filter in force: read 100 % of the bytes, skipped 98 % of the rows, " +
        "but no row group, because the data is not clustered by k"
    )
  }

  test("a filter that skips nothing has its reason") {
    val start = "1 filter in force, skipped nothing: "
    assert(
      text(Seq(ready), Seq(all)) ==
        start + "all row groups have values that pass, because most values do or because the data is not clustered by k"
    )
    assert(text(Seq(ready.copy(reason = Reasons.FewRows.text)), Seq(all)) == start + Reasons.FewRows.text)
  }

  test("without a filter in force the reasons are told") {
    assert(text(Seq(waiting), Nil, rejected) == s"no filter in force: ${Reasons.FewRows.text}; ${Reasons.NoLimit.text}")
    assert(text(Seq(waiting.copy(reason = "")), Nil) == "no filter in force yet: 1 filter without a value")
  }

  test("a query that makes no filter is told why") {
    val why = NoFilter.values.toSeq.map(QuerySummary.of(QueryEntry(1), _))
    assert(why.distinct.size == NoFilter.values.size && why.forall(_.startsWith("no dynamic filter: ")))
    assert(why.exists(_.contains("LIMIT without ORDER BY")) && why.exists(_.contains("enabled is false")))
  }
}
