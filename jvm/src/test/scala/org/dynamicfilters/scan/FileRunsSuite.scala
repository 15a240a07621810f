package org.dynamicfilters.scan

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{FilePartition, FileScanRDD, PartitionedFile}
import org.apache.spark.sql.types.{IntegerType, StructType}
import org.dynamicfilters.plan.SparkTests
import org.scalatest.funsuite.AnyFunSuite

/** `FileScanRDD` calls itself for each file without rows: so many end the process. */
class FileRunsSuite extends AnyFunSuite with SparkTests {
  private def scan(files: Int, isEmpty: Int => Boolean) = {
    val all = Array.tabulate(files) { i =>
      PartitionedFile(InternalRow.empty, SparkPath.fromPathString(s"file:/f/$i"), 0, 1, Array.empty[String], 1L, 1L)
    }
    val reader = { f: PartitionedFile =>
      val i = f.toPath.getName.toInt
      if (isEmpty(i)) Iterator.empty[InternalRow] else Iterator(InternalRow(i))
    }
    val parts = Seq(FilePartition(0, all), FilePartition(1, Array.empty))
    new FileScanRDD(spark, reader, parts, new StructType().add("i", IntegerType))
  }

  test("a partition of very many files without rows is read") {
    val rdd = FileRuns.of(scan(50000, i => i != 17 && i != 49999)).get
    assert(rdd.getNumPartitions == 2)
    assert(rdd.map(_.getInt(0)).collect().toSeq == Seq(17, 49999))
  }

  test("files come in their order, and a few of them as Spark reads them") {
    assert(FileRuns.of(scan(FileRuns.MostFiles, _ => false)).isEmpty)
    val rdd = FileRuns.of(scan(1000, _ % 3 == 0)).get
    assert(rdd.map(_.getInt(0)).collect().toSeq == (0 until 1000).filter(_ % 3 != 0))
  }
}
