package org.dynamicfilters.ui

import scala.xml.{Node, Text}

import org.apache.spark.sql.execution.dynamicfilters.UiAccess.Request
import org.dynamicfilters.report.{LevelEntry, QueryEntry, ScanEntry}

/** One query: its filters on a time line, what each scan skipped, and why other filters do not exist. */
private[ui] final class QueryPage(queries: QueryStore) {
  import QueryPage._

  def content(request: Request): Seq[Node] = idOf(request) match {
    case None => <p>Which query? This page takes <code>?id=</code> and a number.</p>
    case Some(id) =>
      queries.find(id) match {
        case None =>
          <p>Nothing is known of query {id}: it had no dynamic filters, or newer ones took its place
            (<code>spark.dynamicFilters.report.retainedQueries</code>).</p>
        case Some(q) => head(request, q) ++ filters(q) ++ q.scans.flatMap(scan) ++ rejected(q) ++ leftOut(q)
      }
  }

  private def head(request: Request, q: QueryEntry): Seq[Node] = {
    <ul class="list-unstyled">
      <li><strong>Query: </strong>{q.description}</li>
      <li><strong>State: </strong>{q.state}</li>
      <li><strong>Submitted: </strong>{Formats.date(q.started)}</li>
      <li><strong>Duration: </strong>{Formats.duration(q.duration(System.currentTimeMillis()))}</li>
      <li><strong>Filters: </strong>{q.summary}</li>
      <li><strong>Read: </strong>{
      Bars.map(name => s"$name ${Formats.read(q.skipped(name))}").mkString(", ")
    }</li>
      <li><a href={request.link(sqlPath(q.executionId))}>Plan in the SQL tab</a></li>
    </ul>
  }

  private def filters(q: QueryEntry): Seq[Node] =
    if (q.filters.isEmpty) <h4>Filters</h4> ++ <p>None.</p>
    else
      (<h4>Filters</h4> ++ Timeline.draw(q, System.currentTimeMillis())) :+ Formats.table("dynamic-filters", q.filters)(
        ("Filter", f => Text(f.name)),
        ("Producer", f => Text(f.producer)),
        ("State", f => Text(f.state)),
        ("Form", f => Text(f.form)),
        ("Columns", f => Text(f.columns.mkString(", "))),
        ("In force", f => <code>{f.expression}</code>),
        ("Size", f => Text(Formats.bytes(f.bytes))),
        ("Generation", f => Text(Formats.number(f.generation))),
        ("Ready", f => Text(Formats.since(q.started, f.ready))),
        ("First used", f => Text(Formats.since(q.started, f.used))),
        ("Held back", f => Text(if (f.waited > 0) s"${Formats.number(f.waited)} ms" else Formats.Unknown)),
        ("Reason", f => Text(f.reason))
      )

  private def scan(s: ScanEntry): Seq[Node] = {
    val levels = Bars.flatMap(name => s.levels.find(_.name == name))
    val foot = Seq(
      s.levels
        .find(_.name == LevelEntry.PageRows)
        .fold("")(l => s"rows skipped by pages: ${Formats.number(l.skipped)}"),
      s"rows handed on: ${Formats.number(s.rowsOutput)}",
      if (s.filesUnopened > 0) s"files never opened: ${Formats.number(s.filesUnopened)}" else "",
      if (s.skippedBy.isEmpty) "" else s"row groups skipped by: ${Formats.counts(s.skippedBy)}",
      if (s.reasons.isEmpty) "" else s"fell back: ${Formats.counts(s.reasons)}"
    ).filter(_.nonEmpty)
    val names = if (s.filters.isEmpty) "none" else s.filters.map("DynamicFilter#" + _).mkString(", ")
    <h4>Scan of {s.table}</h4> ++ <p>{s.format}; filters: {names}</p> ++
      Formats.table(s"dynamic-filter-scan-${s.id}", levels)(
        ("Level", l => Text(l.name)),
        ("", l => bar(l)),
        ("Read", l => Text(Formats.read(l)))
      ) ++
      <p>{foot.mkString("; ")}</p>
  }

  private def bar(l: LevelEntry): Node = {
    val width = if (l.total == 0) 0.0 else BarWidth * l.read.toDouble / l.total
    <svg width={BarWidth.toString} height="12" role="img">
      <rect width={BarWidth.toString} height="12" fill="#cbd5e1"/>
      <rect width={Timeline.pixels(width)} height="12" fill="#15803d"/>
    </svg>
  }

  private def rejected(q: QueryEntry): Seq[Node] =
    if (q.rejected.isEmpty) Nil
    else
      <h4>Possible, but not used</h4> ++ <p>What could have made a filter, and why it did not.</p> ++
        Formats.table("dynamic-filters-rejected", q.rejected)(
          ("Producer", r => Text(r.producer)),
          ("Columns", r => Text(r.columns.mkString(", "))),
          ("Reason", r => Text(r.reason))
        )

  private def leftOut(q: QueryEntry): Seq[Node] =
    if (q.leftOut == 0) Nil else <p>{Formats.number(q.leftOut)} more filters, scans or reasons are not kept.</p>
}

private[ui] object QueryPage {

  /** Levels that are drawn, as in `sdf.analyze`. */
  private val Bars = Seq(LevelEntry.Bytes, LevelEntry.Files, LevelEntry.RowGroups, LevelEntry.Rows)
  private val BarWidth = 300

  def path(executionId: Long): String = s"/${DynamicFiltersTab.Prefix}/query/?id=$executionId"

  /** The path of Spark's own page of the query. */
  def sqlPath(executionId: Long): String = s"/SQL/execution/?id=$executionId"

  def title(request: Request): String =
    idOf(request).fold("Dynamic Filters of a Query")(id => s"Dynamic Filters of Query $id")

  private def idOf(request: Request): Option[Long] = request.parameter("id").flatMap(_.toLongOption)
}
