package org.dynamicfilters.scan

import java.nio.file.{Files, Paths}
import java.nio.file.attribute.FileTime

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources.{FilePartition, FileScanRDD}
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}
import org.dynamicfilters.operators.DynamicFilterScanExec
import org.dynamicfilters.plan.SparkTests
import org.dynamicfilters.scan.parquet.FooterReads
import org.dynamicfilters.scan.statistics.{FileIdentity, FileStatistics}
import org.scalatest.funsuite.AnyFunSuite

class FooterReadsSuite extends AnyFunSuite with SparkTests {
  test("it may take a small share of the scan's time") {
    assert(FooterReads.budget(0, 2) == 0)
    assert(FooterReads.budget(10L << 20, 2) == 0)
    assert(FooterReads.budget(200000000L, 2) == 30)
    assert(FooterReads.budget(200000000L, 8) == 0)
    assert(FooterReads.budget(400000000L, 8) == 15)
    assert(FooterReads.budget(Long.MaxValue / 2, 2) == 300)
    assert(FooterReads.budget(200000000L, 0) == 60)
  }

  private val Partitions = 6

  /** Files whose keys follow each other, written an hour ago. By its time, the last one is written in an hour: however long the
    * test takes, it counts as written just now.
    */
  private def table(key: String = "id", settings: Seq[(String, String)] = Nil): String = withConf(settings: _*) {
    val path = write(spark.range(0, 6000, 1, Partitions).selectExpr(s"$key AS k", "hex(id) AS s"))
    val files = Files.list(Paths.get(path)).iterator.asScala.filter(_.toString.endsWith(".parquet")).toSeq.sorted
    val (now, hour) = (System.currentTimeMillis, 3600 * 1000L)
    files.init.foreach(Files.setLastModifiedTime(_, FileTime.fromMillis(now - hour)))
    Files.setLastModifiedTime(files.last, FileTime.fromMillis(now + hour))
    path
  }

  /** The scan of a TopK of the greatest keys, what is known of its files afterwards, and in which order they are read. */
  private def learned(
      path: String,
      millis: Long = 30000,
      key: String = "BIGINT"
  ): (DynamicFilterScanExec, FileStatistics, Seq[Int]) = {
    val scan = withConf("spark.sql.adaptive.enabled" -> "false", "spark.sql.files.openCostInBytes" -> "100m") {
      val plan = spark.read
        .schema(s"k $key, s STRING")
        .parquet(path)
        .where("s LIKE '%1%'")
        .orderBy("k")
        .limit(5)
        .queryExecution
        .executedPlan
      plan.collectFirst { case s: DynamicFilterScanExec => s }.get
    }
    val statistics = new FileStatistics(10000)
    val relation = scan.child.asInstanceOf[FileSourceScanExec].relation
    val partitions = partitionsOf(scan).reverse
    val reads = new FooterReads(relation, scan.spec, statistics)
    val conf = SparkAccess.hadoopConf(relation)
    val before = conf.iterator.asScala.map(e => e.getKey -> e.getValue).toMap
    reads.learn(partitions.flatMap(_.files), conf, millis)
    // It is that of the scan's own reader, whose columns it names.
    assert(conf.iterator.asScala.map(e => e.getKey -> e.getValue).toMap == before)
    val none = new Pruner(scan.spec.columns, scan.spec.columns.map(_ => ValueFilter.All))
    val order =
      SplitChooser
        .choose(
          partitions,
          scan.spec,
          none,
          SplitChooser.FileFacts(statistics),
          SplitChooser.Tasks(2, 0)
        )
        .map { choice =>
          choice.splits.flatMap(_.files.files).map(f => f.toPath.getName.slice(5, 10).toInt)
        }
    (scan, statistics, order.getOrElse(Nil))
  }

  private def partitionsOf(scan: DynamicFilterScanExec): Seq[FilePartition] =
    scan.child.asInstanceOf[FileSourceScanExec].inputRDD.asInstanceOf[FileScanRDD].filePartitions

  private def bounds(scan: DynamicFilterScanExec, known: FileStatistics): Seq[Option[ColumnBounds]] = {
    val column = scan.spec.columns.head
    partitionsOf(scan).flatMap(_.files).sortBy(_.urlEncodedPath).map { f =>
      known
        .find(f.urlEncodedPath, FileIdentity.listed(f), scan.spec.statisticsKey(column), f.start, f.start + f.length)
        .map(FileStatistics.boundsOf(_, column.domain))
    }
  }

  test("of all files that were not written just now the bounds are known, and the best comes first") {
    val (scan, known, order) = learned(table())
    val expected = (0 until Partitions - 1).map { i =>
      Some(ColumnBounds(Long.box(i * 1000L), Long.box(i * 1000L + 999), mayHaveNulls = false, mayHaveValues = true))
    }
    assert(bounds(scan, known) == expected :+ None)
    assert(order.take(5) == (0 until 5))
  }

  test("files with several row groups that static predicates would leave out") {
    val (scan, known, _) = learned(table())
    val f = partitionsOf(scan).flatMap(_.files).minBy(_.urlEncodedPath)
    val groups = known.find(
      f.urlEncodedPath,
      FileIdentity.listed(f),
      scan.spec.statisticsKey(scan.spec.columns.head),
      0,
      f.fileSize
    )
    assert(groups.get.length > 1 && groups.get.map(_.rows).sum == 1000)
  }

  test("a column without statistics in the footers") {
    val int96 = "spark.sql.parquet.outputTimestampType" -> "INT96"
    val (scan, known, order) = learned(table("timestamp_seconds(id)", Seq(int96)), key = "TIMESTAMP")
    assert(bounds(scan, known).init.forall(_.forall(b => b.min == null && b.max == null)))
    assert(order.isEmpty || order.sorted == (0 until Partitions))
  }

  test("no time, no reads") {
    val (scan, known, _) = learned(table(), millis = 0)
    assert(bounds(scan, known).forall(_.isEmpty) && known.size == 0)
  }

  test("files that cannot be read are left to the tasks") {
    val path = table()
    val first = Files.list(Paths.get(path)).iterator.asScala.filter(_.toString.endsWith(".parquet")).min
    val (bytes, written) = (Files.readAllBytes(first), Files.getLastModifiedTime(first))
    Files.write(first, Array.fill(bytes.length)(7.toByte))
    Files.setLastModifiedTime(first, written)
    val (scan, known, _) = learned(path)
    assert(bounds(scan, known).count(_.isDefined) == Partitions - 2)
  }
}
