package org.dynamicfilters.scan

import java.io.{Closeable, File}
import java.nio.file.{Files, Path, StandardCopyOption}

import scala.collection.mutable

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.types.StructType
import org.dynamicfilters.plan.SparkTests
import org.dynamicfilters.scan.parquet.ProbeReader
import org.scalatest.funsuite.AnyFunSuite

/** The first pass reads the file that the main reader has open. */
class ProbeReaderSuite extends AnyFunSuite with SparkTests {
  private def fileOf(from: Long): Path = {
    val path = write(
      spark.range(from, from + 2000, 1, 1).select(col("id").as("k"), lit("x").as("v")),
      "compression" -> "none",
      "parquet.enable.dictionary" -> "false"
    )
    val files = new File(path).listFiles
    // Else reading the other file would be an error.
    files.filter(_.getName.endsWith(".crc")).foreach(_.delete())
    files.find(_.getName.endsWith(".parquet")).get.toPath
  }

  test("a file that is replaced while it is read is read to its end") {
    val (old, other) = (fileOf(5000000), fileOf(6000000))
    val length = Files.size(old)
    val schema = new StructType().add("k", "long").add("v", "string")
    val rows = new ParquetFileFormat().buildReaderWithPartitionValues(
      spark,
      schema,
      new StructType(),
      schema,
      Nil,
      Map("returning_batch" -> "true"),
      spark.sessionState.newHadoopConf()
    )(
      PartitionedFile(
        InternalRow.empty,
        SparkPath.fromPathString(old.toUri.toString),
        0,
        length,
        Array.empty[String],
        Files.getLastModifiedTime(old).toMillis,
        length
      )
    )
    try {
      val main = ParquetReaderAccess.of(rows).get
      val groups = main.fileReader.getRowGroups
      assert(groups.size > 2)
      val probe = new ProbeReader(main, new StructType().add("k", "long"), 0, length)
      val seen = mutable.ArrayBuffer.empty[Long]
      // Hadoop's local stream opens the file for vectored reads when there is the first.
      assert(main.fileReader.readRowGroup(0) != null)
      Files.move(other, old, StandardCopyOption.REPLACE_EXISTING)
      (0 until groups.size).foreach { g =>
        // By turns, on one stream.
        probe.read(g, groups.get(g).getRowCount, None, indexed = false) { (batch, _) =>
          seen ++= (0 until batch.numRows).map(batch.column(0).getLong)
          true
        }
        assert(main.fileReader.readRowGroup(g).getRowCount == groups.get(g).getRowCount)
      }
      probe.close()
      assert(seen == (5000000L until 5002000L))
      assert(main.fileReader.readRowGroup(0).getRowCount > 0, "closing the first pass leaves the file open")
    } finally rows.asInstanceOf[Closeable].close()
  }
}
