package org.dynamicfilters.ui

import java.util.Locale

import scala.xml.{Node, NodeSeq}

import org.apache.spark.sql.execution.dynamicfilters.UiAccess
import org.dynamicfilters.report.{CountEntry, LevelEntry, QuerySummary}

/** Formats numbers and times for pages, with the same words as `sdf.analyze`. */
private[ui] object Formats {
  val Unknown = "\u2013"

  def number(n: Long): String = QuerySummary.number(n)

  /** How much of a level was read: `3 of 30 (10 %)`. */
  def read(l: LevelEntry): String = {
    val shown: Long => String = if (l.name == LevelEntry.Bytes) bytes else number
    if (l.total == 0) Unknown
    else s"${shown(l.read)} of ${shown(l.total)} (${QuerySummary.percent(l.read, l.total)})"
  }

  def bytes(n: Long): String = {
    val units = Iterator.iterate((n.toDouble, 0)) { case (x, unit) => (x / 1024, unit + 1) }
    val (x, unit) = units.find { case (x, unit) => x < 1024 || unit == 4 }.get
    if (unit == 0) s"$n B" else "%.1f %s".formatLocal(Locale.ROOT, x, Seq("", "KiB", "MiB", "GiB", "TiB")(unit))
  }

  def duration(millis: Option[Long]): String = millis.fold(Unknown)(UiAccess.formatDuration)
  def date(millis: Long): String = if (millis > 0) UiAccess.formatDate(millis) else Unknown

  /** Time since the start of a query: `+1,204 ms`. */
  def since(start: Long, millis: Long): String =
    if (millis <= 0 || start <= 0) Unknown else s"+${number(math.max(0L, millis - start))} ms"

  def counts(of: Seq[CountEntry]): String = of.map(c => s"${c.name} ${number(c.count)}").mkString(", ")

  /** A table in the style of Spark's UI: a row for each item, with the names of the columns and what they show of it. */
  def table[A](id: String, items: Seq[A])(columns: (String, A => NodeSeq)*): Node =
    <table id={id} class="table table-bordered table-striped table-sm sortable">
      <thead><tr>{columns.map(c => <th>{c._1}</th>)}</tr></thead>
      <tbody>{items.map(i => <tr>{columns.map(c => <td>{c._2(i)}</td>)}</tr>)}</tbody>
    </table>
}
