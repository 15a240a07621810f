package org.dynamicfilters.ui

import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal
import scala.xml.Node

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.dynamicfilters.UiAccess
import org.apache.spark.sql.execution.dynamicfilters.UiAccess.{Page, Request}
import org.dynamicfilters.filter.PluginFailure
import org.dynamicfilters.report.{QueryReport, QueryReports}

/** The tab "Dynamic Filters" of Spark's UI. Its failures never reach a query. */
object DynamicFiltersTab extends Logging {
  val Name = "Dynamic Filters"
  val Prefix = "DynamicFilters"

  /** Adds the tab to the UI of a running application. */
  def attach(sc: SparkContext): Unit =
    quietly(UiAccess.attach(sc, Name, Prefix, pages(new LiveQueries(QueryReports.instance))))

  /** Writes the report of an ended execution to the event log, if it is of interest. */
  def ended(sc: SparkContext, report: QueryReport): Unit =
    quietly(if (UiAccess.isWatched(sc) && report.isOfInterest) UiAccess.post(sc, QueryJson.event(report.entry)))

  def pages(queries: QueryStore): Seq[Page] = Seq(
    Page("", _ => Name, content(new QueryListPage(queries).content(_))),
    Page("query", r => QueryPage.title(r), content(new QueryPage(queries).content(_)))
  )

  private def content(of: Request => Seq[Node])(request: Request): Seq[Node] =
    try of(request)
    catch {
      case NonFatal(e) =>
        warnOnce(e)
        <p>This cannot be shown: {e.getClass.getSimpleName}. The driver's log says more.</p>
    }

  private def quietly(what: => Unit): Unit =
    try what
    catch { case PluginFailure(e) => warnOnce(e) }

  private val warned = new AtomicBoolean
  private def warnOnce(e: Throwable): Unit =
    if (warned.compareAndSet(false, true)) logWarning("Dynamic filters: something is not shown in Spark's UI", e)
}
