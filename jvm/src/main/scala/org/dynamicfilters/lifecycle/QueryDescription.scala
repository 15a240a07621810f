package org.dynamicfilters.lifecycle

import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.QueryExecution
import org.dynamicfilters.report.{NoFilter, QueryReport}
import org.dynamicfilters.settings.Settings

/** The name of a query in reports, and why it has no filter. */
private[lifecycle] object QueryDescription {

  // Names in Spark's UI: of queries of PySpark and Spark Connect, and of those of `sdf.analyze`.
  private val OfGateway = "(?s)(\\w+) at (?:NativeMethodAccessorImpl|DirectMethodHandleAccessor|<unknown>).*".r
  private val ReplacedBySql = "(?s)analyze at .*|Spark Connect - .*".r

  /** The SQL text of a query that Spark has no better name for, or its method and tables; else the name in Spark's UI, as a call
    * site or job description.
    */
  def name(report: QueryReport, query: QueryExecution): String = {
    def sql = sqlText(query.logical).map(_.split("\\s+").filter(_.nonEmpty).mkString(" "))
    report.description match {
      case asIs if report.showValues.contains(false) => asIs
      case OfGateway(method) => sql.getOrElse(method + ofTables(query.logical))
      case asIs @ ReplacedBySql() => sql.getOrElse(asIs)
      case asIs => asIs
    }
  }

  private def ofTables(plan: LogicalPlan): String = {
    val names = plan.collect { case s: SubqueryAlias => s.identifier.name }.distinct
    if (names.isEmpty) "" else names.mkString(" of ", ", ", "")
  }

  /** Methods as `show` and `count` put operators on top of the query. A view has another text than the query. */
  private def sqlText(plan: LogicalPlan): Option[String] = plan.origin.sqlText.orElse(plan match {
    case _: View | _: SubqueryAlias => None
    case u: UnaryNode => sqlText(u.child)
    case _ => None
  })

  /** Why a query that has no filters, and no rejected ones, has none. */
  def noFilter(query: QueryExecution): NoFilter.Value = {
    val plan = query.optimizedPlan
    def has(is: PartialFunction[LogicalPlan, Unit]) = plan.exists(is.isDefinedAt)
    if (!Settings.get(query.sparkSession.sessionState.conf, Settings.Enabled)) NoFilter.switchedOff
    else if (has { case _: Join | _: Aggregate | _: Sort | _: Window => }) NoFilter.nothingMakesOne
    else if (has { case _: GlobalLimit | _: LocalLimit => }) NoFilter.limitOnly
    else if (has { case _: Filter => }) NoFilter.whereOnly
    else NoFilter.nothingMakesOne
  }
}
