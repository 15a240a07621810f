package org.dynamicfilters.report

import org.dynamicfilters.scan.{ScanCounter, ScanRun}

/** Turns reports into entries. The only place that says what a scan's counters mean for the summary and the UI. */
object QueryEntries {
  import QueryEntry._

  /** Contains values of the data only if the query's session is known to allow that. */
  def fromReport(report: QueryReport): QueryEntry = {
    val (scans, rejected) = report.synchronized((report.scans.toVector, report.rejected.toVector))
    val all = QueryEntry(
      report.executionId,
      bounded(report.description),
      report.state,
      report.startedMillis,
      report.endedMillis,
      report.views.map(filter(report, _)),
      scans.map(scan(report, _)),
      rejected.map(r => RejectedEntry(r.producer.toString, columns(r.columns), bounded(r.reason.text)))
    )
    all.copy(
      filters = all.filters.take(MostFilters),
      scans = all.scans.take(MostScans),
      rejected = all.rejected.take(MostRejected),
      leftOut = Seq(all.filters.size - MostFilters, scans.size - MostScans, rejected.size - MostRejected)
        .map(math.max(0, _))
        .sum
        .toLong,
      summary = QuerySummary.of(all, report.noFilter)
    )
  }

  private def columns(names: Seq[String]): Seq[String] = names.take(MostColumns).map(bounded(_, 80))

  private def filter(report: QueryReport, f: FilterView): FilterEntry =
    FilterEntry(
      f.filterId.toString,
      f.producer.toString,
      columns(f.columns),
      f.state.toString,
      f.filter.form,
      bounded(f.filter.shown(report.showValues.contains(true))),
      f.generation,
      f.bytes,
      bounded(f.reason.fold("")(_.text)),
      f.times.registered,
      f.times.ready,
      f.times.used,
      f.waitMillis
    )

  private def scan(report: QueryReport, s: ScanRun): ScanEntry = {
    import ScanCounter._
    val (r, cameToEnd) = (s.report(report.executionId), report.cameToEnd)
    // Tasks may add to the report meanwhile.
    def level(name: String, skipped: Long, total: Long) =
      Option.when(total > 0)(LevelEntry(name, math.min(math.max(skipped, 0L), total), total))
    def counts(of: (String, Long)*) = of.collect { case (name, n) if n > 0 => CountEntry(bounded(name, 200), n) }
    ScanEntry(
      s.scanId.toString,
      bounded(s.table.name),
      s.table.format,
      s.filterIds.take(MostColumns).map(_.toString),
      Seq(
        level(LevelEntry.Files, r.files.counts.pruned(s.table.files, cameToEnd), s.table.files),
        level(LevelEntry.RowGroups, r(RowGroupsPruned), r(RowGroups)),
        level(LevelEntry.PageRows, r(RowsSkippedByPages), r(Rows)).filter(_.skipped > 0),
        level(LevelEntry.Rows, r(Rows) - r(RowsOutput), r(Rows)),
        level(LevelEntry.Bytes, r(BytesTotal) - r(BytesRead), r(BytesTotal))
      ).flatten,
      r(RowsOutput),
      r.files.counts.unopened(s.table.files, cameToEnd),
      counts(
        "statistics" -> r(ByStatistics),
        "dictionary" -> r(ByDictionary),
        "bloom filter of the file" -> r(ByBloom),
        "page index" -> r(ByPages),
        "rows" -> r(ByRows)
      ),
      counts(r.reasons.toSeq.take(MostReasons): _*)
    )
  }
}
