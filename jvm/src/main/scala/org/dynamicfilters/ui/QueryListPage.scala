package org.dynamicfilters.ui

import scala.xml.{Node, Text}

import org.apache.spark.sql.execution.dynamicfilters.UiAccess.Request
import org.dynamicfilters.report.{LevelEntry, QueryEntry}

/** The queries with dynamic filters, newest first. */
private[ui] final class QueryListPage(queries: QueryStore) {

  /** Queries on a page. */
  private val PageSize = 100

  def content(request: Request): Seq[Node] = {
    val size = queries.size
    val pages = math.max(1, (size + PageSize - 1) / PageSize)
    val page = request.parameter("page").flatMap(_.toIntOption).fold(1)(p => math.min(math.max(p, 1), pages))
    val shown = queries.newest((page - 1) * PageSize, PageSize)
    val now = System.currentTimeMillis()
    val about =
      <p>Queries with dynamic filters, or with a producer that was rejected: {Formats.number(size.toLong)}.</p>
    Seq(about) ++ turns(request, page, pages) :+ table(request, shown, now)
  }

  private def turns(request: Request, page: Int, pages: Int): Seq[Node] =
    if (pages == 1) Nil
    else {
      val links = (1 to pages).map { p =>
        if (p == page) <b>{p} </b>
        else <span><a href={request.link(s"/${DynamicFiltersTab.Prefix}/?page=$p")}>{p}</a> </span>
      }
      <p>Page: {links}</p>
    }

  private def table(request: Request, shown: Seq[QueryEntry], now: Long): Node = {
    def link(path: String, text: String): Node = <a href={request.link(path)}>{text}</a>
    // What was rejected beside filters in force is on the query's page.
    def filters(q: QueryEntry) = if (q.filtersInForce > 0) s"${q.filtersInForce} in force" else "none in force"
    Formats.table("dynamic-filter-queries", shown)(
      ("ID", q => link(QueryPage.path(q.executionId), q.executionId.toString)),
      ("Description", q => link(QueryPage.path(q.executionId), if (q.description.isEmpty) "query" else q.description)),
      ("State", q => Text(q.state)),
      ("Submitted", q => Text(Formats.date(q.started))),
      ("Duration", q => Text(Formats.duration(q.duration(now)))),
      ("Filters", q => Text(filters(q))),
      ("Bytes read", q => Text(Formats.read(q.skipped(LevelEntry.Bytes)))),
      ("Files read", q => Text(Formats.read(q.skipped(LevelEntry.Files)))),
      ("Rows read", q => Text(Formats.read(q.skipped(LevelEntry.Rows)))),
      ("Plan", q => link(QueryPage.sqlPath(q.executionId), "SQL"))
    )
  }
}
