package org.dynamicfilters.lifecycle

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{Row, SQLContext, SparkSession}
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry.TableFunctionBuilder
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.dynamicfilters.UserError
import org.apache.spark.sql.sources.{BaseRelation, TableScan}
import org.apache.spark.sql.types._
import org.dynamicfilters.report.ReportRows
import org.dynamicfilters.user.DynamicFilterFunctions

/** The table functions that show filters at work. Each session sees its own queries. */
object ReportFunctions {
  type Description = (FunctionIdentifier, ExpressionInfo, TableFunctionBuilder)

  private def function(name: String, schema: StructType, usage: String)(rows: ReportReader => Seq[Row]): Description =
    describe(name, s"_FUNC_() - $usage") { arguments =>
      if (arguments.nonEmpty) throw invalid(s"$name takes no arguments, ${arguments.size} given")
      val session = SparkSession.active
      session.baseRelationToDataFrame(new ReportRelation(session, schema, rows)).queryExecution.analyzed
    }

  private def invalid(what: String) = new UserError("DYNAMIC_FILTER_INVALID_USE", what, UserError.Syntax)

  private def describe(name: String, usage: String)(builder: TableFunctionBuilder): Description =
    (
      FunctionIdentifier(name),
      DynamicFilterFunctions.info(classOf[ReportRelation], name, usage, "table_funcs"),
      builder
    )

  private val FilterColumns = StructType.fromDDL(
    "query_id BIGINT, filter_id STRING, producer STRING, columns ARRAY<STRING>, form STRING, state STRING, " +
      "reason STRING, generation BIGINT, expression STRING, size_bytes BIGINT, wait_ms BIGINT, ready_ms BIGINT, " +
      "reason_code STRING, advice STRING"
  )

  private val ScanColumns = StructType.fromDDL(
    "query_id BIGINT, scan_id BIGINT, table_name STRING, filter_ids ARRAY<STRING>, files_total BIGINT, " +
      "files_pruned BIGINT, row_groups_total BIGINT, row_groups_pruned BIGINT, rows_total BIGINT, rows_pruned BIGINT, " +
      "rows_output BIGINT, bytes_total BIGINT, bytes_read BIGINT, row_groups_late_materialized BIGINT, " +
      "pruned_by MAP<STRING, BIGINT>, reasons MAP<STRING, BIGINT>, files_unopened BIGINT, bytes_read_again BIGINT, format STRING"
  )

  private val QueryColumns =
    StructType.fromDDL("query_id BIGINT, description STRING, tags ARRAY<STRING>, state STRING, plan STRING")

  private val TimeColumns =
    StructType.fromDDL("filter_id STRING, registered_ms BIGINT, ready_ms BIGINT, used_ms BIGINT")

  private val ReportColumns = QueryColumns
    .add("filters", ArrayType(FilterColumns))
    .add("scans", ArrayType(ScanColumns))
    .add("duration_ms", LongType)
    .add("times", ArrayType(TimeColumns))
    .add("part_of", LongType)
    .add("processor_ms", LongType)
    .add("summary", StringType)

  /** Made of a local relation, so that Spark runs no job for it. */
  private val report = describe(
    "dynamic_filter_report",
    "_FUNC_(tag) - everything of this session's queries that ran under a tag of this text, once they have ended"
  ) { arguments =>
    val tag = arguments match {
      case Seq(e) if e.foldable && e.dataType == StringType && e.eval() != null => e.eval().toString
      case _ =>
        throw invalid("dynamic_filter_report takes one argument, the text of a query's tag")
    }
    LocalRelation.fromExternalRows(
      DataTypeUtils.toAttributes(ReportColumns),
      new ReportReader(SparkSession.active).under(tag)
    )
  }

  private val filters = function(
    "dynamic_filters",
    FilterColumns,
    "one row for each dynamic filter of this session's queries, rejected ones included"
  )(_.filters)

  private val scans = function(
    "dynamic_filter_scans",
    ScanColumns,
    "one row for each filtered scan of this session's queries"
  )(_.scans)

  private val executors = function(
    "dynamic_filter_executors",
    StructType.fromDDL(
      "query_id BIGINT, scan_id BIGINT, executor_id STRING, row_groups_total BIGINT, row_groups_pruned BIGINT, " +
        "rows_total BIGINT, rows_pruned BIGINT, rows_output BIGINT, bytes_total BIGINT, bytes_read BIGINT"
    ),
    "one row for each executor that worked for a filtered scan of this session's queries; `driver` for what got no task"
  )(_.executors)

  private val counters = function(
    "dynamic_filter_counters",
    StructType.fromDDL("name STRING, value BIGINT"),
    "what became of the driver's messages to and from executors, since the application started"
  )(_.counters)

  private val live = function(
    "dynamic_filter_live",
    StructType.fromDDL("executor_id STRING, name STRING, value BIGINT"),
    "what the driver and each executor hold of running queries now; nothing, apart from the asking query, when none runs"
  )(_.live)

  private val queries = function(
    "dynamic_filter_queries",
    QueryColumns,
    "one row for each of this session's queries that the report keeps, with the plan as executed where it was asked for"
  )(_.queries)

  private val summary = function(
    "dynamic_filter_summary",
    StructType.fromDDL("query_id BIGINT, summary STRING, description STRING"),
    "one row for each of this session's queries that the report keeps: what filters did for it, in one sentence"
  )(_.summaries)

  private val users = function(
    "dynamic_user_filters",
    StructType.fromDDL(
      "name STRING, type STRING, generation BIGINT, form STRING, expression STRING, values BIGINT, size_bytes BIGINT, " +
        "token STRING"
    ),
    "one row for each open filter that this session's user made, as it is now"
  )(_.users)

  private val status = function(
    "dynamic_filters_status",
    StructType.fromDDL(
      "version STRING, protocol INT, spark_version STRING, enabled BOOLEAN, activation STRING, live_executions INT"
    ),
    "one row: the plugin's version and whether it is active in this session"
  )(_.status)

  val all: Seq[Description] = Seq(filters, scans, summary, executors, queries, report, counters, users, live, status)
}

/** The rows are made when the query over the function is planned for execution, not when it is analyzed. */
private final class ReportRelation(
    session: SparkSession,
    override val schema: StructType,
    rows: ReportReader => Seq[Row]
) extends BaseRelation
    with TableScan
    with ReportRows {
  override def sqlContext: SQLContext = session.sqlContext
  override def buildScan(): RDD[Row] =
    session.sparkContext.parallelize(rows(new ReportReader(session)), 1)
}
