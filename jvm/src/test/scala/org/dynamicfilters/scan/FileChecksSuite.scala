package org.dynamicfilters.scan

import java.nio.file.{Files, Path}
import java.nio.file.attribute.FileTime

import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.scalatest.funsuite.AnyFunSuite
import org.dynamicfilters.scan.statistics.FileChecks

class FileChecksSuite extends AnyFunSuite {
  private val conf = new Configuration()

  private def write(file: Path, length: Int, modified: Long): Unit =
    Files.setLastModifiedTime(Files.write(file, new Array[Byte](length)), FileTime.fromMillis(modified))

  private def listed(path: SparkPath) =
    PartitionedFile(InternalRow.empty, path, 0, 10, Array.empty[String], 50000, 10)

  test("files that are as listed, changed and missing") {
    val folder = Files.createTempDirectory("file checks ä")
    try {
      val all = (0 until 4).map(j => folder.resolve(s"part %$j ü.parquet"))
      Seq((10, 50000L), (10, 60000L), (11, 50000L)).zip(all).foreach { case ((length, modified), file) =>
        write(file, length, modified)
      }
      val files = all.map(f => listed(SparkPath.fromUri(f.toUri)))
      val checks = new FileChecks
      def answers = files.map(checks.isAsListed(_, conf))
      assert(answers == Seq(Some(true), Some(false), Some(false), Some(false)))
      // Each file is asked for once.
      write(all.head, 12, 70000)
      assert(answers.head.contains(true) && new FileChecks().isAsListed(files.head, conf).contains(false))
    } finally FileUtils.deleteDirectory(folder.toFile)
  }

  test("a file system that cannot be asked gives no answer") {
    val file = listed(SparkPath.fromUrlString("nosuchscheme://host/part-0"))
    assert(new FileChecks().isAsListed(file, conf).isEmpty)
  }
}
