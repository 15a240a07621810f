package org.dynamicfilters.ui

import scala.xml.{Node, XML}

import org.apache.spark.sql.execution.dynamicfilters.UiAccess.Request
import org.dynamicfilters.report._
import org.scalatest.funsuite.AnyFunSuite

class PagesSuite extends AnyFunSuite {
  private val nasty = "<script>alert('1')</script> & \"x\" 'y'"
  private val start = 1700000000000L

  private def query(id: Long, filters: Int = 1) = QueryEntry(
    id,
    s"query $nasty",
    "finished",
    start,
    start + 1000,
    (1 to filters).map { i =>
      FilterEntry(
        i.toString,
        "join",
        Seq("k", nasty),
        "ready",
        "range+in",
        s"k IN ($nasty)",
        1,
        2048,
        nasty,
        start - 5,
        start + 400,
        start + 410,
        300
      )
    },
    Seq(
      ScanEntry(
        "7",
        nasty,
        "parquet",
        Seq("1"),
        Seq(LevelEntry(LevelEntry.Files, 3, 4), LevelEntry(LevelEntry.Bytes, 900, 1000)),
        12,
        2,
        Seq(CountEntry("statistics", 5)),
        Seq(CountEntry(nasty, 1))
      )
    ),
    Seq(RejectedEntry("aggregate", Seq("v"), s"count needs every row $nasty")),
    summary = s"1 filter in force $nasty"
  )

  private final class Queries(all: Seq[QueryEntry]) extends QueryStore {
    override def size: Int = all.size
    override def newest(from: Int, most: Int): Seq[QueryEntry] = all.reverse.slice(from, from + most)
    override def find(id: Long): Option[QueryEntry] = all.find(_.executionId == id)
  }

  private def asked(of: (String, String)*) = new Request {
    override def parameter(name: String): Option[String] = of.toMap.get(name)
    override def link(path: String): String = "/base" + path
  }

  /** As text; what is no well-formed XML fails. */
  private def text(nodes: Seq[Node]): String = {
    val html = nodes.mkString("<div>", "", "</div>")
    XML.loadString(html)
    html
  }

  private def page(q: QueryEntry): String =
    text(new QueryPage(new Queries(Seq(q))).content(asked("id" -> q.executionId.toString)))

  test("a query's page shows filters, levels, reasons, and escapes all of them") {
    val html = page(query(5))
    assert(!html.contains("<script>") && html.contains("&lt;script&gt;"))
    Seq(
      "DynamicFilter#1",
      "range+in",
      "2.0 KiB",
      "+400 ms",
      "+410 ms",
      "300 ms",
      "1 of 4 (25 %)",
      "100 B of 1000 B (10 %)",
      "1 filter in force",
      "count needs every row",
      "files never opened: 2",
      "statistics 5",
      "/base/SQL/execution/?id=5"
    ).foreach(s => assert(html.contains(s), s))
    assert(html.contains("dynamic-filters-timeline"))
  }

  test("a query of which little is known has a page") {
    Seq(QueryEntry(1), QueryEntry(2, filters = Seq(FilterEntry("1"))), query(3).copy(started = 0, ended = 0))
      .foreach(q => assert(page(q).contains("Filters")))
    val running = query(4).copy(state = "running", ended = 0)
    assert(page(running).contains("running"))
  }

  test("what is asked for wrongly is answered in words") {
    val pages = new QueryPage(new Queries(Seq(query(5))))
    assert(text(pages.content(asked())).contains("Which query?"))
    assert(text(pages.content(asked("id" -> "<b>"))).contains("Which query?"))
    assert(text(pages.content(asked("id" -> "6"))).contains("Nothing is known of query 6"))
  }

  test("the list is in pages, newest first") {
    val list = new QueryListPage(new Queries((1L to 250L).map(query(_))))
    def ids(parameters: (String, String)*) =
      "query/\\?id=(\\d+)".r
        .findAllMatchIn(text(list.content(asked(parameters: _*))))
        .map(_.group(1).toLong)
        .toSeq
        .distinct
    assert(ids() == (250L to 151L by -1))
    assert(ids("page" -> "3") == (50L to 1L by -1))
    assert(ids("page" -> "99") == ids("page" -> "3"))
    assert(ids("page" -> "<x>") == ids())
    val html = text(list.content(asked()))
    assert(!html.contains("<script>"))
    assert(html.contains("1 in force") && html.contains("1 of 4 (25 %)") && html.contains("100 B of 1000 B (10 %)"))
    assert(text(new QueryListPage(new Queries(Nil)).content(asked())).contains("rejected: 0"))
  }

  test("a page that fails says so") {
    val broken = new QueryStore {
      override def size: Int = throw new IllegalStateException("broken")
      override def newest(from: Int, most: Int): Seq[QueryEntry] = Nil
      override def find(id: Long): Option[QueryEntry] = None
    }
    val Seq(list, _) = DynamicFiltersTab.pages(broken)
    assert(text(list.content(asked())).contains("cannot be shown"))
  }

  test("100 queries of 10 filters are listed fast") {
    val list = new QueryListPage(new Queries((1L to 100L).map(query(_, filters = 10))))
    text(list.content(asked()))
    val from = System.nanoTime()
    text(list.content(asked()))
    assert((System.nanoTime() - from) / 1000000 < 1000)
  }

  test("times on the axis are round, and labels are whole") {
    assert(Timeline.ticks(1000) == Seq(0, 200, 400, 600, 800, 1000))
    assert(Timeline.ticks(1234) == Seq(0, 500, 1000) && Timeline.ticks(1) == Seq(0, 1))
    val long = query(1).copy(filters = Seq(FilterEntry("1", columns = Seq("a" * 80), registered = start)))
    assert(page(long).contains("#1 " + "a" * 80))
  }

  test("shares are 0 and 100 only for none and all") {
    val shares = Seq((0, 9), (9, 9), (1, 1000), (999, 1000), (1, 2))
    assert(shares.map { case (a, b) =>
      QuerySummary.percent(a.toLong, b.toLong)
    } == Seq("0 %", "100 %", "< 1 %", "> 99 %", "50 %"))
    assert(Seq(0L, 1023L, 1536L, 3L << 40).map(Formats.bytes) == Seq("0 B", "1023 B", "1.5 KiB", "3.0 TiB"))
  }
}
