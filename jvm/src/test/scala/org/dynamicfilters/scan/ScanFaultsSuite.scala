package org.dynamicfilters.scan

import java.io.{File, RandomAccessFile}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.spark.sql.functions._
import org.dynamicfilters.plan.SparkTests
import org.scalatest.funsuite.AnyFunSuite

/** Faults of files and of Spark's own reader that a scan has to live with. */
class ScanFaultsSuite extends AnyFunSuite with SparkTests {

  private def fileOf(path: String): File = new File(path).listFiles.filter(_.getName.endsWith(".parquet")).head

  test("a row group that cannot be read fails the query as it does without filters") {
    val path = write(spark.range(0, 5000, 1, 1).select(col("id").as("k"), (col("id") * 7).cast("string").as("s")))
    val file = fileOf(path)
    val input = HadoopInputFile.fromPath(new Path(file.toURI), new Configuration())
    val blocks = scala.util.Using.resource(ParquetFileReader.open(input))(_.getFooter.getBlocks)
    assert(blocks.size >= 5, blocks.size)
    val f = new RandomAccessFile(file, "rw")
    f.seek(blocks.get(0).getColumns.get(1).getStartingPos)
    f.write(Array.fill[Byte](40)(-1))
    f.close()
    new File(path).listFiles.filter(_.getName.endsWith(".crc")).foreach(_.delete())
    def query = spark.read.parquet(path).orderBy("k").limit(5)
    intercept[Exception](without(query.collect()))
    intercept[Exception](info(query.collect().mkString(" ")))
  }

  // Spark leaves out the rest of a file after any exception of its reader: a fault of ours would cost rows, not the query.
  for (batches <- Seq(true, false))
    test(s"corrupt files are ignored since the query was planned: no row is lost, all are counted, batches: $batches") {
      val path = write(spark.range(0, 3000, 1, 1).select((col("id") * 37 % 3000).as("k"), col("id").as("v")))
      withConf("spark.sql.parquet.enableVectorizedReader" -> batches.toString) {
        val query = spark.read.parquet(path).orderBy(col("k").desc).limit(5)
        assert(query.queryExecution.executedPlan.toString.contains("DynamicFilter"))
        withConf("spark.sql.files.ignoreCorruptFiles" -> "true") {
          assert(query.collect().map(_.getLong(0)).toSeq == Seq(2999, 2998, 2997, 2996, 2995))
        }
      }
      assert(seen().rowsTotal == 3000)
    }

  test("rows of delta-encoded pages are not skipped") {
    val path = write(
      spark
        .range(0, 4000, 1, 1)
        .selectExpr(
          "id",
          "cast(id as int) as i",
          "lpad(cast(id * 7 as string), 6, '0') as s",
          "lpad(cast(id as string), 60, '0') as k"
        ),
      "parquet.enable.dictionary" -> "false",
      "parquet.writer.version" -> "v2"
    )
    // Stock Spark skips rows too where a predicate has page statistics to go by; this one has none.
    val sparse = "substr(k, 50) > lpad('2000', 11, '0') and k like '%8' and k not like '%08%' and k not like '%18%'"
    checkSame(spark.read.parquet(path).where(sparse).orderBy("id").limit(40))
  }

  test("a second execution of the same query is reported") {
    val path = write(spark.range(0, 3000, 1, 1).select((col("id") * 37 % 3000).as("k"), col("id").as("v")))
    val q = spark.read.parquet(path).orderBy("k").limit(5)
    q.collect()
    val first = seen()
    q.collect()
    val second = seen()
    assert(second.rowsTotal == first.rowsTotal, "the first execution's counts grew")
    assert(second.scans.head.getAs[Long]("query_id") > first.scans.head.getAs[Long]("query_id"))
  }
}
