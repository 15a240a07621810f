package org.dynamicfilters.report

import java.util.Locale

/** Why a query has no filter, although none was rejected. */
object NoFilter extends Enumeration {
  val switchedOff, inParts, limitOnly, whereOnly, nothingMakesOne = Value
}

/** Says in one sentence what filters did for a query. The only place that does: `sdf.analyze`, the UI and
  * `dynamic_filter_summary()` show this sentence.
  */
object QuerySummary {

  /** @param none used if there is no filter at all */
  def of(q: QueryEntry, none: NoFilter.Value): String = {
    val (inForce, others) = q.filters.partition(_.inForce)
    if (inForce.nonEmpty) {
      val waiting = others.count(_.state != FilterState.disabled.toString)
      count(inForce.size, "filter") + " in force" + (if (waiting > 0) s", $waiting without a value" else "") +
        (if (q.scans.isEmpty) "" else effect(inForce, q))
    } else {
      val reasons = (others.map(_.reason) ++ q.rejected.map(_.reason)).filter(_.nonEmpty).distinct
      if (reasons.nonEmpty)
        s"no filter in force: ${reasons.take(Most).mkString("; ")}${if (reasons.size > Most) "; ..." else ""}"
      else if (others.nonEmpty) s"no filter in force yet: ${count(others.size, "filter")} without a value"
      else noFilter(none)
    }
  }

  private val Most = 2

  private def effect(inForce: Seq[FilterEntry], q: QueryEntry): String = {
    val Seq(files, rowGroups, rows, bytes) =
      Seq(LevelEntry.Files, LevelEntry.RowGroups, LevelEntry.Rows, LevelEntry.Bytes).map(q.skipped)
    val skipped = Seq(
      Option.when(files.skipped > 0)(s"${number(files.skipped)} of ${number(files.total)} files"),
      Option.when(rows.skipped > 0)(s"${percent(rows.skipped, rows.total)} of the rows")
    ).flatten
    val parts = Option.when(bytes.total > 0)(s"read ${percent(bytes.read, bytes.total)} of the bytes") ++
      Option.when(skipped.nonEmpty)(s"skipped ${skipped.mkString(" and ")}")
    val read = if (parts.isEmpty) "" else parts.mkString(": ", ", ", "")
    // Only rows were dropped: the scan still read all row groups.
    val byRows = rowGroups.total > 0 && rowGroups.skipped == 0 && files.skipped == 0
    if (skipped.nonEmpty)
      read + (if (byRows) s", but no row group, because the data is not clustered by ${columns(inForce)}" else "")
    else
      inForce.map(_.reason).find(_.nonEmpty) match {
        case Some(reason) => s", skipped nothing: $reason"
        case None if rows.total > 0 =>
          ", skipped nothing: all row groups have values that pass, because most values do or because the data is not " +
            s"clustered by ${columns(inForce)}"
        case None => read
      }
  }

  private def columns(filters: Seq[FilterEntry]): String = {
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

  /** Rounded. 0 only for none, and 100 only for all. */
  private[dynamicfilters] def percent(part: Long, total: Long): String =
    if (part > 0 && part < total) {
      val rounded = math.round(100.0 * part / total)
      if (rounded == 0) "< 1 %" else if (rounded == 100) "> 99 %" else s"$rounded %"
    } else if (total > 0 && part >= total) "100 %"
    else "0 %"
}
