package org.dynamicfilters.report

import java.util.concurrent.TimeUnit

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{Row, SQLContext, SparkSession}
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry.TableFunctionBuilder
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.dynamicfilters.SqlMetricsAccess
import org.apache.spark.sql.sources.{BaseRelation, TableScan}
import org.apache.spark.sql.types._
import org.dynamicfilters.{Driver, Settings, Version}
import org.dynamicfilters.exchange.{ExchangeCounters, LocalExchange}
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.scan.{ScanCounter, ScanReport}
import org.dynamicfilters.testing.FaultInjection
import org.dynamicfilters.user.UserFilters

/** The table functions that show filters at work. Each session sees its own queries. */
object ReportFunctions {
  type Description = (FunctionIdentifier, ExpressionInfo, TableFunctionBuilder)

  private def function(name: String, schema: StructType, usage: String)(rows: ReportReader => Seq[Row]): Description =
    describe(name, s"_FUNC_() - $usage") { arguments =>
      if (arguments.nonEmpty) throw new IllegalArgumentException(s"$name takes no arguments, ${arguments.size} given")
      val session = SparkSession.active
      session.baseRelationToDataFrame(new ReportRelation(session, schema, rows)).queryExecution.analyzed
    }

  private def describe(name: String, usage: String)(builder: TableFunctionBuilder): Description = {
    val info =
      new ExpressionInfo(
        classOf[ReportRelation].getName,
        null,
        name,
        usage,
        "",
        "",
        "",
        "table_funcs",
        "0.1.0",
        "",
        "built-in"
      )
    (FunctionIdentifier(name), info, builder)
  }

  private val FilterColumns = StructType.fromDDL(
    "query_id BIGINT, filter_id STRING, producer STRING, columns ARRAY<STRING>, form STRING, state STRING, " +
      "reason STRING, generation BIGINT, expression STRING, size_bytes BIGINT, wait_ms BIGINT, ready_ms BIGINT"
  )

  private val ScanColumns = StructType.fromDDL(
    "query_id BIGINT, scan_id BIGINT, table_name STRING, filter_ids ARRAY<STRING>, files_total BIGINT, " +
      "files_pruned BIGINT, row_groups_total BIGINT, row_groups_pruned BIGINT, rows_total BIGINT, rows_pruned BIGINT, " +
      "rows_output BIGINT, bytes_total BIGINT, bytes_read BIGINT, row_groups_late_materialized BIGINT, " +
      "pruned_by MAP<STRING, BIGINT>, reasons MAP<STRING, BIGINT>"
  )

  private val QueryColumns =
    StructType.fromDDL("query_id BIGINT, description STRING, tags ARRAY<STRING>, state STRING, plan STRING")

  private val ReportColumns =
    QueryColumns.add("filters", ArrayType(FilterColumns)).add("scans", ArrayType(ScanColumns))

  /** Its row is made when the statement is analyzed, so that Spark needs no job for it. */
  private val report = describe(
    "dynamic_filter_report",
    "_FUNC_(tag) - everything of this session's newest query that ran under a tag of this text, once it has ended"
  ) { arguments =>
    val tag = arguments match {
      case Seq(e) if e.foldable && e.dataType == StringType && e.eval() != null => e.eval().toString
      case _ =>
        throw new IllegalArgumentException("dynamic_filter_report takes one argument, the text of a query's tag")
    }
    LocalRelation.fromExternalRows(
      DataTypeUtils.toAttributes(ReportColumns),
      new ReportReader(SparkSession.active).newest(tag).toSeq
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

  private val trace = function(
    "dynamic_filter_trace",
    StructType.fromDDL(
      "executor_id STRING, query_id BIGINT, event STRING, partition INT, key STRING, micros BIGINT"
    ),
    "for measurements: contributions to TopKs and bounds that executors took over, where faults of kind trace are injected"
  )(_.trace)

  private val queries = function(
    "dynamic_filter_queries",
    QueryColumns,
    "one row for each of this session's queries that the report keeps, with the plan as executed where it was asked for"
  )(_.queries)

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

  val all: Seq[Description] = Seq(filters, scans, executors, queries, report, counters, users, live, trace, status)
}

/** Rows are made when the query over them is planned for execution, not when it is analyzed. */
private final class ReportRelation(
    session: SparkSession,
    override val schema: StructType,
    rows: ReportReader => Seq[Row]
) extends BaseRelation
    with TableScan {
  override def sqlContext: SQLContext = session.sqlContext
  override def buildScan(): RDD[Row] =
    session.sparkContext.parallelize(rows(new ReportReader(session)), 1)
}

private final class ReportReader(session: SparkSession) {
  import ReportReader._

  private val showValues = Settings.get(session.sessionState.conf, Settings.ShowValues)

  private lazy val reports: Seq[QueryReport] = now()

  private def now(): Seq[QueryReport] = {
    // Queries end on the listener's thread; one that has just returned may not have arrived there.
    SqlMetricsAccess.listenersCaughtUp(session.sparkContext, 5000)
    QueryReports.instance.ofSession(SqlMetricsAccess.sessionId(session))
  }

  /** Spark decorates tags with user and session. A client of Spark Connect has its rows before the execution has ended. */
  def newest(tag: String): Option[Row] = {
    def found = now().filter(_.tags.exists(_.contains(tag))).maxByOption(_.executionId)
    val last = System.nanoTime() + TimeUnit.SECONDS.toNanos(EndSeconds)
    var query = found
    while (query.exists(_.state == "running") && System.nanoTime() < last) {
      Thread.sleep(PollMillis)
      query = found
    }
    query.map(q => Row.fromSeq(queryRow(q).toSeq ++ Seq(filterRows(q), scanRows(q))))
  }

  def filters: Seq[Row] = reports.flatMap(filterRows)

  private def filterRows(q: QueryReport): Seq[Row] = q.synchronized {
    q.filters.toSeq.map(f => filterRow(q, f)) ++ q.rejected.toSeq.map { r =>
      Row(q.executionId, null, r.producer, r.columns, "all", "disabled", r.reason, 0L, "true", 0L, 0L, null)
    }
  }

  private def filterRow(q: QueryReport, record: FilterRecord): Row = {
    val f = record.view(q.executionId, running = q.state == "running")
    Row(
      q.executionId,
      f.filterId.toString,
      f.producer,
      f.columns,
      f.filter.form,
      f.state.toString,
      f.reason,
      f.generation,
      if (showValues || !f.filter.hasValues) f.filter.expression else ValueFilter.Hidden,
      f.bytes,
      f.waitMillis,
      f.readyMillis.orNull
    )
  }

  def scans: Seq[Row] = reports.flatMap(scanRows)

  private def scanRows(q: QueryReport): Seq[Row] =
    q.synchronized(q.scans.toSeq).map { s =>
      val r = s.accumulator.value.getOrElse(q.executionId, new ScanReport(q.executionId, ""))
      import ScanCounter._
      val table = Seq(
        q.executionId,
        s.scanId,
        s.tableName,
        s.filterIds.map(_.toString),
        s.filesTotal,
        math.max(0L, s.filesTotal - r.filesRead.size)
      )
      val how = Seq(
        r(LateMaterialized),
        Map(
          "statistics" -> r(ByStatistics),
          "dictionary" -> r(ByDictionary),
          "bloom" -> r(ByBloom),
          "page index" -> r(ByPages),
          "rows" -> r(ByRows)
        ),
        r.reasons.toMap ++ (if (r(GaveUp) > 0) Map("late materialization gave up" -> r(GaveUp)) else Map.empty)
      )
      Row.fromSeq(table ++ totals(r) ++ how)
    }

  /** From row_groups_total to bytes_read. */
  private def totals(r: ScanReport): Seq[Long] = {
    import ScanCounter._
    Seq(r(RowGroups), r(RowGroupsPruned), r(Rows), r(Rows) - r(RowsOutput), r(RowsOutput), r(BytesTotal), r(BytesRead))
  }

  def executors: Seq[Row] = reports.flatMap { q =>
    q.synchronized(q.scans.toSeq).flatMap { s =>
      s.accumulator.byExecutor(q.executionId).map { r =>
        Row.fromSeq(Seq(q.executionId, s.scanId, r.executorId) ++ totals(r))
      }
    }
  }

  def counters: Seq[Row] = {
    // What Spark's listeners counted is complete only then.
    if (FaultInjection.current.isDefined) SqlMetricsAccess.listenersCaughtUp(session.sparkContext, 5000)
    ExchangeCounters.instance.all.map { case (c, n) => Row(c.toString, n) } ++
      FaultInjection.counters.map { case (name, n) => Row(name, n) }
  }

  def live: Seq[Row] = {
    SqlMetricsAccess.listenersCaughtUp(session.sparkContext, 5000)
    val exchange = Driver.exchange
    val driver = (LiveCounts.ofProcess ++ LiveCounts.ofDriver(exchange)).map { case (n, v) => Row("driver", n, v) }
    driver ++ exchange.toSeq.flatMap(_.live()).flatMap { case (executor, text) =>
      LiveCounts.read(text).map { case (name, n) => Row(executor, name, n) }
    }
  }

  def trace: Seq[Row] = FaultInjection.traced.map { e =>
    Row(e.executorId, e.executionId, e.what, e.partition, if (showValues) e.key else ValueFilter.Hidden, e.micros)
  }

  def users: Seq[Row] = UserFilters.of(SqlMetricsAccess.sessionId(session)).map { f =>
    val g = f.current
    Row(
      f.name,
      f.typeText,
      g.number,
      g.filter.form,
      g.filter.shown(f.name, showValues),
      g.filter match {
        case ValueFilter.Members(_, keys) => keys.size
        case _ => null
      },
      g.sizeBytes,
      f.token
    )
  }

  def queries: Seq[Row] = reports.map(queryRow)

  private def queryRow(q: QueryReport): Row = Row(q.executionId, q.description, q.tags, q.state, q.plan)

  def status: Seq[Row] = {
    val enabled = Settings.get(session.sessionState.conf, Settings.Enabled)
    Seq(
      Row(
        Version.current,
        Version.protocol,
        session.version,
        enabled,
        Driver.activation.fold("")(_.toString),
        LocalExchange.instance.liveExecutions
      )
    )
  }
}

private object ReportReader {

  /** How long a report may be behind its query: Spark's listeners may have much to do. */
  private val EndSeconds = 10L
  private val PollMillis = 20L
}
