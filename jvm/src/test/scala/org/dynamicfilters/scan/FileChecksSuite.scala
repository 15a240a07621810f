package org.dynamicfilters.scan

import java.io.FileNotFoundException
import java.net.URI
import java.nio.file.{Files, Path}
import java.nio.file.attribute.FileTime
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path => HadoopPath, RawLocalFileSystem}
import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.dynamicfilters.exchange.Worker
import org.scalatest.BeforeAndAfterAll
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

class FileChecksSuite extends AnyFunSuite with Eventually with BeforeAndAfterAll {
  private val conf = new Configuration()

  private val folders = new ConcurrentLinkedQueue[Path]

  private def newFolder(name: String): Path = {
    val folder = Files.createTempDirectory(name)
    folders.add(folder)
    folder
  }

  override def afterAll(): Unit = {
    folders.forEach(f => FileUtils.deleteDirectory(f.toFile))
    super.afterAll()
  }

  private def write(folder: Path, name: String, length: Int, modified: Long): Path = {
    val f = Files.write(folder.resolve(name), new Array[Byte](length))
    Files.setLastModifiedTime(f, FileTime.fromMillis(modified))
  }
  private def listed(file: Path, length: Long = 10, modified: Long = 50000) =
    PartitionedFile(InternalRow.empty, SparkPath.fromUri(file.toUri), 0, length, Array.empty[String], modified, length)

  // Few are asked for one by one, many of a folder by listing it, unless it holds many others.
  Seq((1, 3, "few"), (2, 20, "many"), (1, 20, "some")).foreach { case (folders, each, name) =>
    test(s"files that are as listed, changed and missing: $name") {
      val all = (0 until folders).flatMap { i =>
        val folder = newFolder(s"file checks ä $i")
        (0 until each).map(j => write(folder, s"part %$j ü.parquet", 10, 50000))
      }
      val files = all.map(listed(_))
      val wanted = if (name == "some") files.take(9) else files
      write(all(0).getParent, all(0).getFileName.toString, 10, 60000)
      write(all(1).getParent, all(1).getFileName.toString, 11, 50000)
      Files.delete(all(2))
      val checks = new FileChecks
      assert(wanted.forall(checks.isAsListed(_).isEmpty))
      checks.askAll(wanted, files.iterator, conf, 60000)
      // A missing one has no answer where its folder was listed; the task that would read it asks for it.
      assert(wanted.take(3).map(f => checks.isAsListed(f).contains(true)) == Seq(false, false, false))
      assert(wanted.take(2).forall(checks.isAsListed(_).contains(false)))
      assert(wanted.drop(3).forall(checks.isAsListed(_).contains(true)))
      assert(
        wanted.take(4).map(checks.ask(_, conf)) == Seq(Some(false), Some(false), Some(false), Some(true)).take(
          wanted.length
        )
      )
      // Each file is asked for once.
      wanted.drop(3).headOption.foreach { f =>
        write(all(3).getParent, all(3).getFileName.toString, 12, 70000)
        checks.askAll(wanted, files.iterator, conf, 60000)
        assert(checks.ask(f, conf).contains(true) && new FileChecks().ask(f, conf).contains(false))
      }
    }
  }

  test("a file system that cannot be asked gives no answer") {
    val file = PartitionedFile(
      InternalRow.empty,
      SparkPath.fromUrlString("nosuchscheme://host/part-0"),
      0,
      10,
      Array.empty[String],
      50000L,
      10L
    )
    assert(new FileChecks().ask(file, conf).isEmpty)
  }

  test("nobody waits for answers for longer than was said") {
    val folder = newFolder("file checks")
    val files = (0 until 5).map(i => listed(write(folder, s"p$i", 10, 50000)))
    val checks = new FileChecks
    checks.askAll(files, files.iterator, conf, 0)
    assert(files.forall(checks.ask(_, conf).contains(true)))
  }

  test("nobody waits while all threads hang in requests, and all go on when these are answered") {
    val release = new CountDownLatch(1)
    def millisOf(count: Int)(request: => Unit): Long = {
      val requests = new ConcurrentLinkedQueue[() => Unit](Seq.fill(count)(() => request).asJava)
      val start = System.nanoTime()
      FileChecks.all(requests, start + TimeUnit.MILLISECONDS.toNanos(2500))
      TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start)
    }
    val (asked, entered) = (new AtomicInteger, new CountDownLatch(8))
    try {
      assert(millisOf(8) { entered.countDown(); release.await() } >= 2400)
      // They hang for two seconds when the last of them has begun.
      assert(entered.await(20, TimeUnit.SECONDS))
      Thread.sleep(2100)
      assert((1 to 5).map(_ => millisOf(3)(asked.incrementAndGet())).sum < 1000 && asked.get == 0)
    } finally release.countDown()
    eventually(timeout(Span(20, Seconds)), interval(Span(100, Millis))) {
      millisOf(3)(asked.incrementAndGet())
      assert(asked.get >= 3)
    }
  }

  test("threads end when there is nothing to ask for") {
    val folder = newFolder("file checks")
    val files = (0 until 5).map(i => listed(write(folder, s"p$i", 10, 50000)))
    val checks = new FileChecks
    checks.askAll(files, files.iterator, conf, 60000)
    assert(files.forall(checks.isAsListed(_).contains(true)))
    eventually(timeout(Span(20, Seconds)), interval(Span(100, Millis))) {
      assert(!Thread.getAllStackTraces.keySet.asScala.exists(_.getName == Worker.Prefix + "files"))
    }
  }

  test("all scans of a query together wait for twice as long as one") {
    conf.set("fs.slow.impl", classOf[SlowFileSystem].getName)
    val checks = new FileChecks
    val start = System.nanoTime()
    (1 to 10).foreach { scan =>
      val files = (0 until 30).map { i =>
        val path = SparkPath.fromUrlString(s"slow://host/$scan/$i/part")
        PartitionedFile(InternalRow.empty, path, 0, 10, Array.empty[String], 50000L, 10L)
      }
      checks.askAll(files, files.iterator, conf, 500)
    }
    val waited = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start)
    assert(waited >= 900 && waited < 4000)
  }
}

/** Takes its time to say that there is no such file. */
final class SlowFileSystem extends RawLocalFileSystem {
  override def initialize(name: URI, conf: Configuration): Unit = setConf(conf)
  override def getUri: URI = URI.create("slow://host")
  override def getFileStatus(path: HadoopPath): FileStatus = {
    Thread.sleep(300)
    throw new FileNotFoundException(path.toString)
  }
}
