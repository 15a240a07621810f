package org.dynamicfilters.report

import java.util.Locale

import org.dynamicfilters.scan.{ScanCounter, ScanRun}

/** Why a query has no filter, although none was rejected. */
object NoFilter extends Enumeration {
  val switchedOff, inParts, limitOnly, whereOnly, nothingMakesOne = Value
}

/** Part of what there is; `of` is 0 if it is not known. */
final case class Share(part: Long, of: Long) {
  def +(other: Share): Share = Share(part + other.part, of + other.of)

  /** Rounded. 0 only for none, and 100 only for all. */
  def percent: String =
    if (part > 0 && part < of) {
      val rounded = math.round(100.0 * part / of)
      if (rounded == 0) "< 1 %" else if (rounded == 100) "> 99 %" else s"$rounded %"
    } else if (of > 0 && part >= of) "100 %"
    else "0 %"
}

/** What one scan skipped of its files, row groups and rows, and what it read of its bytes. */
final case class Skipped(files: Share, rowGroups: Share, rows: Share, bytesRead: Share) {
  def +(o: Skipped): Skipped =
    Skipped(files + o.files, rowGroups + o.rowGroups, rows + o.rows, bytesRead + o.bytesRead)
}

/** Says in one sentence what filters did for a query. The only place that does: `sdf.analyze`, the UI and
  * `dynamic_filter_summary()` show this sentence.
  */
object QuerySummary {
  def of(q: QueryReport): String = {
    // Copied under the lock: viewing a filter takes long, and a running query must not wait for it.
    val (filters, scans, rejected) =
      q.synchronized((q.filters.toVector, q.scans.toVector, q.rejected.toVector))
    text(
      filters.map(_.view(q.executionId, running = q.state == "running")),
      rejected,
      scans.map(skipped(q, _)),
      q.noFilter
    )
  }

  private def skipped(q: QueryReport, s: ScanRun): Skipped = {
    import ScanCounter._
    val r = s.report(q.executionId)
    def share(part: Long, of: Long) = Share(math.min(math.max(part, 0L), of), of)
    Skipped(
      share(r.files.counts.pruned(s.table.files, q.cameToEnd), s.table.files),
      share(r(RowGroupsPruned), r(RowGroups)),
      share(r(Rows) - r(RowsOutput), r(Rows)),
      share(r(BytesRead), r(BytesTotal))
    )
  }

  /** @param none used if there is no filter at all
    */
  def text(filters: Seq[FilterView], rejected: Seq[Rejected], scans: Seq[Skipped], none: NoFilter.Value): String = {
    val (inForce, others) = filters.partition(f => f.state != FilterState.disabled && f.generation > 0)
    if (inForce.nonEmpty) {
      val waiting = others.count(_.state != FilterState.disabled)
      count(inForce.size, "filter") + " in force" + (if (waiting > 0) s", $waiting without a value" else "") +
        scans.reduceOption(_ + _).fold("")(effect(inForce, _))
    } else {
      val reasons = (others.flatMap(_.reason) ++ rejected.map(_.reason)).map(_.text).distinct
      if (reasons.nonEmpty)
        s"no filter in force: ${reasons.take(Most).mkString("; ")}${if (reasons.size > Most) "; ..." else ""}"
      else if (others.nonEmpty) s"no filter in force yet: ${count(others.size, "filter")} without a value"
      else noFilter(none)
    }
  }

  private val Most = 2

  private def effect(inForce: Seq[FilterView], all: Skipped): String = {
    val skipped = Seq(
      Option.when(all.files.part > 0)(s"${number(all.files.part)} of ${number(all.files.of)} files"),
      Option.when(all.rows.part > 0)(s"${all.rows.percent} of the rows")
    ).flatten
    val parts = Option.when(all.bytesRead.of > 0)(s"read ${all.bytesRead.percent} of the bytes") ++
      Option.when(skipped.nonEmpty)(s"skipped ${skipped.mkString(" and ")}")
    val read = if (parts.isEmpty) "" else parts.mkString(": ", ", ", "")
    // Only rows were dropped: the scan still read all row groups.
    val byRows = all.rowGroups.of > 0 && all.rowGroups.part == 0 && all.files.part == 0
    if (skipped.nonEmpty)
      read + (if (byRows) s", but no row group, because the data is not clustered by ${columns(inForce)}" else "")
    else
      inForce.flatMap(_.reason).headOption match {
        case Some(reason) => s", skipped nothing: ${reason.text}"
        case None if all.rows.of > 0 =>
          ", skipped nothing: all row groups have values that pass, because most values do or because the data is not " +
            s"clustered by ${columns(inForce)}"
        case None => read
      }
  }

  private def columns(filters: Seq[FilterView]): String = {
    val names = filters.flatMap(_.columns).distinct
    (names.take(Most) ++ Option.when(names.size > Most)("...")).mkString(", ")
  }

  private def noFilter(why: NoFilter.Value): String = "no dynamic filter: " + (why match {
    case NoFilter.switchedOff => "spark.dynamicFilters.enabled is false"
    case NoFilter.inParts => "the batch ran in another query, which has a report of its own"
    case NoFilter.limitOnly =>
      "a LIMIT without ORDER BY takes the first rows that come, and Spark itself stops after them"
    case NoFilter.whereOnly => "Spark itself skips by a WHERE with constants"
    case NoFilter.nothingMakesOne =>
      "the query has no ORDER BY ... LIMIT, join, min, max, subquery value or user filter over a scan"
  })

  private def count(n: Int, what: String) = s"$n $what${if (n == 1) "" else "s"}"

  /** `1,234` */
  private[dynamicfilters] def number(n: Long): String = "%,d".formatLocal(Locale.ROOT, n)
}
