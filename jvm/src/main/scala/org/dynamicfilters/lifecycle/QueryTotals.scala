package org.dynamicfilters.lifecycle

import com.codahale.metrics.Counter
import org.dynamicfilters.report.{FilterView, QueryReport}
import org.dynamicfilters.scan.{ScanCounter, ScanReport}

/** What the filters of an application's ended queries did. Spark's metrics system shows the counters (docs/metrics.md). */
private[lifecycle] final class QueryTotals {
  private val queriesFiltered, queriesHelped, queriesFailedOpen = new Counter
  private val bytesTotal, bytesSpared, rowsSpared, waitMillis = new Counter

  /** By name, as docs/metrics.md has them. */
  val all: Seq[(String, Counter)] = Seq(
    "queriesFiltered" -> queriesFiltered,
    "queriesHelped" -> queriesHelped,
    "queriesFailedOpen" -> queriesFailedOpen,
    "bytesTotal" -> bytesTotal,
    "bytesSpared" -> bytesSpared,
    "rowsSpared" -> rowsSpared,
    "waitMillis" -> waitMillis
  )

  /** Counts an execution that has ended. */
  def add(report: QueryReport): Unit = {
    val filters = report.views
    val (scans, rejected) = report.synchronized {
      (report.scans.toVector.map(s => s.report(report.executionId) -> s.table.files), report.rejected.toVector)
    }
    if (scans.nonEmpty) queriesFiltered.inc()
    if (helped(filters, scans, report.cameToEnd)) queriesHelped.inc()
    val reasons = filters.flatMap(_.reason) ++ rejected.map(_.reason)
    if (reasons.exists(_.isFailure) || scans.exists(_._1(ScanCounter.Failures) > 0)) queriesFailedOpen.inc()
    scans.foreach { case (scan, _) => add(scan) }
    waitMillis.inc(filters.map(_.waitMillis).sum)
  }

  private def helped(filters: Seq[FilterView], scans: Seq[(ScanReport, Long)], cameToEnd: Boolean): Boolean =
    filters.exists(_.generation > 0) && scans.exists { case (scan, files) =>
      rowsOf(scan) > 0 || scan.files.counts.pruned(files, cameToEnd) > 0
    }

  private def add(scan: ScanReport): Unit = {
    import ScanCounter._
    bytesTotal.inc(scan(BytesTotal))
    bytesSpared.inc(math.max(0L, scan(BytesTotal) - scan(BytesRead) - scan(BytesReadAgain)))
    rowsSpared.inc(rowsOf(scan))
  }

  private def rowsOf(scan: ScanReport): Long = math.max(0L, scan(ScanCounter.Rows) - scan(ScanCounter.RowsOutput))
}
