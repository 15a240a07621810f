package org.dynamicfilters.plan

import java.nio.file.{Files, Path}
import java.util.Comparator

import scala.util.Using

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.dynamicfilters.report.QueryReports
import org.dynamicfilters.state.{Executions, RunningTasks}
import org.scalatest.{BeforeAndAfterAll, Suite}
import org.scalatest.concurrent.{Eventually, TimeLimits}
import org.scalatest.time.{Millis, Seconds, Span}

/** One session for all suites that need one: starting Spark takes longer than most of them. */
object SparkTests {

  /** Two cores, and a task may fail twice. */
  lazy val session: SparkSession = {
    val s = SparkSession
      .builder()
      .master("local[2,3]")
      .appName("spark-dynamic-filters")
      .config("spark.plugins", "org.dynamicfilters.DynamicFiltersPlugin")
      .config("spark.ui.enabled", "false")
      .config("spark.sql.shuffle.partitions", "3")
      .config("spark.sql.warehouse.dir", scratch.resolve("warehouse").toString)
      .config("spark.sql.session.timeZone", "UTC")
      // Interpreted queries spare a third of the time; tests of generated code set `compiled`.
      .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
      .config("spark.driver.host", "localhost")
      .config("spark.driver.bindAddress", "127.0.0.1")
      .getOrCreate()
    s.sparkContext.setLogLevel("ERROR")
    s
  }

  lazy val scratch: Path = {
    val dir = Files.createTempDirectory("dynamic-filters-test")
    sys.addShutdownHook(delete(dir))
    dir
  }

  private def delete(dir: Path): Unit =
    Using.resource(Files.walk(dir))(_.sorted(Comparator.reverseOrder[Path]()).forEach(Files.deleteIfExists(_)))
}

/** What `dynamic_filters()` and `dynamic_filter_scans()` say of one query. */
final case class Seen(filters: Seq[Row], scans: Seq[Row]) {
  def fired: Boolean = filters.exists(_.getAs[String]("state") == "ready")
  def rowsPruned: Long = scans.map(_.getAs[Long]("rows_pruned")).sum
  def rowsTotal: Long = scans.map(_.getAs[Long]("rows_total")).sum
  def rowGroupsPruned: Long = scans.map(_.getAs[Long]("row_groups_pruned")).sum

  /** Whether a scan left something out: that a filter was there proves nothing of it. */
  def skipped: Boolean = rowsPruned > 0 || rowGroupsPruned > 0 || scans.exists(_.getAs[Long]("files_pruned") > 0)
  def reasons: Seq[String] = filters.map(_.getAs[String]("reason")).filter(_ != null)
}

/** Files of many small row groups, and queries with and without filters. */
trait SparkTests extends BeforeAndAfterAll with TimeLimits with Eventually { self: Suite =>
  protected def spark: SparkSession = SparkTests.session

  implicit override def patienceConfig: PatienceConfig = PatienceConfig(Span(30, Seconds), Span(50, Millis))

  private val directories = new java.util.concurrent.atomic.AtomicInteger

  protected def newPath(): String =
    SparkTests.scratch.resolve(s"${getClass.getSimpleName}-${directories.incrementAndGet()}").toString

  protected val smallRowGroups: Map[String, String] = Map(
    "parquet.block.size" -> "4096",
    "parquet.page.size" -> "512",
    "parquet.page.row.count.limit" -> "100",
    "parquet.block.row.count.limit" -> "500"
  )

  protected def write(df: DataFrame, more: (String, String)*): String = {
    val path = newPath()
    df.write.options(smallRowGroups ++ more).parquet(path)
    path
  }

  protected def withConf[A](settings: (String, String)*)(body: => A): A = {
    val before = settings.map { case (k, _) => k -> spark.conf.getOption(k) }
    settings.foreach { case (k, v) => spark.conf.set(k, v) }
    try body
    finally before.foreach { case (k, v) => v.fold(spark.conf.unset(k))(spark.conf.set(k, _)) }
  }

  protected val compiled: (String, String) = "spark.sql.codegen.factoryMode" -> "FALLBACK"

  protected def without[A](body: => A): A = withConf("spark.dynamicFilters.enabled" -> "false")(body)

  // All suites have one session: a query without a report must not be taken for the one before it.
  private var newestBefore = -1L

  /** The newest query of the session, by the report; none that was there before the last comparison began. */
  protected def seen(): Seen = {
    val filters = spark.sql("select * from dynamic_filters()").collect().toSeq
    val scans = spark.sql("select * from dynamic_filter_scans()").collect().toSeq
    val ids = (filters ++ scans).map(_.getAs[Long]("query_id"))
    val last = ids.filter(_ > newestBefore).maxOption.getOrElse(-1L)
    Seen(filters.filter(_.getAs[Long]("query_id") == last), scans.filter(_.getAs[Long]("query_id") == last))
  }

  /** Runs a query without and with filters; both results as texts, for NaN equals itself there. */
  protected def bothWays(query: => DataFrame): (Seq[String], Seq[String]) = {
    def rows(df: DataFrame): Seq[String] = failAfter(Span(60, Seconds))(df.collect().toSeq.map(SparkTestText.of))
    val expected = without(rows(query))
    newestBefore = QueryReports.instance.ofInterest.lastOption.fold(-1L)(_.executionId)
    (expected, rows(query))
  }

  /** Equal rows in equal order: for queries without ties. */
  protected def checkSame(query: => DataFrame): Unit = {
    val (expected, actual) = bothWays(query)
    assert(actual == expected)
  }

  protected def nothingIsLeft(): Unit = eventually {
    assert(Executions.instance.live == 0 && RunningTasks.live == 0)
  }
}

object SparkTestText {
  def of(value: Any): String = value match {
    case r: Row => r.toSeq.map(of).mkString("[", ", ", "]")
    case b: Array[Byte] => b.map(x => f"$x%02x").mkString("x", "", "")
    case s: scala.collection.Seq[_] => s.map(of).mkString("(", ", ", ")")
    // Spark calls them equal, and which of the two is returned is a matter of ties.
    case d: Double if d == 0 => "0.0"
    case f: Float if f == 0 => "0.0"
    case other => String.valueOf(other)
  }
}
