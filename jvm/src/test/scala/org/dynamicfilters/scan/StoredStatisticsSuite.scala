package org.dynamicfilters.scan

import java.nio.file.{Files, Path}
import java.util.concurrent.{Executors, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}
import org.scalatest.funsuite.AnyFunSuite

class StoredStatisticsSuite extends AnyFunSuite {
  private val types = Map[String, DataType](
    "i" -> IntegerType,
    "t" -> TimestampType,
    "x" -> DoubleType,
    "s" -> StringType,
    "b" -> BinaryType,
    "d" -> DecimalType(30, 4),
    "m" -> DecimalType(10, 2)
  )
  private val domains = types.map { case (name, dt) => name -> KeyDomain.forType(dt).toOption.get }
  private val roots = Seq("file:/data/t")

  private def value(dt: DataType, r: Random): Any = dt match {
    case IntegerType => r.nextInt()
    case TimestampType => r.nextLong()
    case DoubleType => if (r.nextInt(5) == 0) Double.NaN else r.nextGaussian()
    case StringType => UTF8String.fromString(Seq.fill(r.nextInt(40))("aü€𝄞".charAt(r.nextInt(3))).mkString)
    case BinaryType => r.nextBytes(r.nextInt(20))
    case d: DecimalType => Decimal(BigDecimal(BigInt(d.precision * 2, r), d.scale), d.precision, d.scale)
  }

  private def bounds(column: String, r: Random): ColumnBounds = r.nextInt(4) match {
    case 0 => ColumnBounds.unknown
    case 1 => ColumnBounds.onlyNulls
    case _ =>
      val d = domains(column)
      val two = Seq.fill(2)(d.fromInternal(value(types(column), r))).sortWith((a, b) => d.compare(a, b) < 0)
      ColumnBounds(if (r.nextInt(9) == 0) null else two.head, two.last, r.nextBoolean(), mayHaveValues = true)
  }

  private def learned(statistics: FileStatistics, path: String, r: Random): Unit =
    for (start <- Seq(0L, 1000L); (column, i) <- domains.keys.toSeq.sorted.zipWithIndex) {
      val groups = Array.tabulate(r.nextInt(4)) { g =>
        LearnedRowGroup(start + g * 100, r.nextInt(1000), r.nextInt(10000), bounds(column, r))
      }
      val sizes = ChunkSizes(Array("i", "s.a"), groups.map(_.middle), groups.map(_ => Array(7L, 1L << 40)))
      val of =
        LearnedSplit(path, FileIdentity(2000, 77), column, start, start + 1000, groups, Some(sizes).filter(_ => i == 0))
      statistics.offer(of)
    }

  /** Readable and equal where what is known is the same. */
  private def text(all: Seq[LearnedSplit]): Seq[String] =
    all.groupBy(_.path).toSeq.sortBy(_._1).map { case (path, of) =>
      val splits = of.map(s =>
        s"${s.identity} ${s.column} ${s.start} ${s.end} " +
          s"${s.rowGroups.toSeq.map(g => (g.copy(bounds = null), g.bounds.hashCode))}"
      )
      val sizes = of.flatMap(s => s.sizes.map(z => (s.start, s.end, z))).map { case (start, end, z) =>
        s"$start $end ${z.columns.toSeq} ${z.middles.toSeq} ${z.bytes.map(_.toSeq).toSeq}"
      }
      s"$path ${splits.sorted} ${sizes.sorted}"
    }

  private def paths(of: FileStatistics, root: String): Seq[String] =
    of.below(Seq(root), 100000).map(_.path).distinct

  private def directory(f: Path => Unit): Unit = {
    val d = Files.createTempDirectory("statistics")
    try f(d)
    finally FileUtils.deleteDirectory(d.toFile)
  }

  private def place(d: Path, of: Seq[String]) =
    StoredStatistics.Place(d.toUri.toString, of, new Configuration())

  private def saved(d: Path, statistics: FileStatistics, of: Seq[String] = roots): Unit = {
    val store = new StoredStatistics(statistics)
    store.load(place(d, of), domains).close()
    store.flush(10000)
  }

  /** What was learned of one file, and where it was saved. */
  private def savedOne(d: Path): (FileStatistics, Path) = {
    val statistics = new FileStatistics(100000)
    learned(statistics, "file:/data/t/a", new Random(1))
    saved(d, statistics)
    (statistics, Files.list(d).iterator.asScala.next())
  }

  private def loaded(d: Path, of: Seq[String] = roots): FileStatistics = {
    val statistics = new FileStatistics(100000)
    val store = new StoredStatistics(statistics)
    store.load(place(d, of), Map.empty)
    store.flush(10000)
    statistics
  }

  test("another application knows what was learned of a table, of all types") {
    for (seed <- 1 to 30) directory { d =>
      val (r, statistics) = (new Random(seed), new FileStatistics(100000))
      Seq("file:/data/t/a.parquet", "file:/data/t/p=1/b%20c.parquet").foreach(learned(statistics, _, r))
      saved(d, statistics)
      val (known, again) = (statistics.below(roots, 100000), loaded(d).below(roots, 100000))
      assert(text(known).size == 2 && text(again) == text(known), s"seed $seed")
    }
  }

  test("what a file says of files of another table is not believed") {
    directory { d =>
      val statistics = new FileStatistics(100000)
      Seq("file:/data/t/a", "file:/data/u/a").foreach(learned(statistics, _, new Random(1)))
      saved(d, statistics)
      val file = Files.list(d).iterator.asScala.next()
      val all = statistics.below(Seq("file:/data"), 100000)
      Files.write(file, StatisticsCodec.encode(TableFiles(roots.mkString, domains, all)))
      assert(paths(statistics, "file:/data").size == 2 && paths(loaded(d), "file:/data") == Seq("file:/data/t/a"))
    }
  }

  test("only files of the table are written, and read for it alone") {
    directory { d =>
      val statistics = new FileStatistics(100000)
      Seq("file:/data/t/a", "file:/data/tt/a", "file:/data/a").foreach(learned(statistics, _, new Random(1)))
      saved(d, statistics)
      assert(paths(loaded(d), "file:/") == Seq("file:/data/t/a"))
      assert(loaded(d, Seq("file:/data/tt")).size == 0)
      assert(d.toFile.list.length == 1)
    }
  }

  test("a file that is damaged anywhere, or cut, is not used") {
    directory { d =>
      val (statistics, file) = savedOne(d)
      val bytes = Files.readAllBytes(file)
      assert(StatisticsCodec.decode(bytes).isRight)
      bytes.indices.foreach { i =>
        val damaged = bytes.updated(i, (bytes(i) ^ (1 << (i % 8))).toByte)
        assert(StatisticsCodec.decode(damaged).isLeft, s"byte $i")
        assert(StatisticsCodec.decode(bytes.take(i)).isLeft, s"the first $i bytes")
      }
      Files.write(file, bytes.take(bytes.length / 2))
      assert(loaded(d).size == 0)
      // And is written anew.
      saved(d, statistics)
      assert(text(loaded(d).below(roots, 100000)) == text(statistics.below(roots, 100000)))
    }
  }

  test("a file under the name of another table's is not used") {
    directory { d =>
      val (_, file) = savedOne(d)
      Files.copy(file, d.resolve(StoredStatistics.nameOf("file:/data/other")))
      assert(loaded(d, Seq("file:/data/other")).size == 0)
    }
  }

  test("a directory that cannot be written, or is none, changes nothing") {
    directory { d =>
      val (file, statistics) = (Files.createFile(d.resolve("file")), new FileStatistics(100000))
      learned(statistics, "file:/data/t/a", new Random(1))
      saved(file, statistics)
      assert(paths(statistics, roots.head).size == 1)
      val nowhere = StoredStatistics.Place("nofs://host/x", roots, new Configuration())
      val store = new StoredStatistics(statistics)
      store.load(nowhere, domains).close()
      store.flush(10000)
    }
  }

  test("a directory that hangs costs the first table a wait, and no other") {
    directory { d =>
      val fifo = d.resolve(StoredStatistics.nameOf("file:/data/hangs"))
      assert(new ProcessBuilder("mkfifo", fifo.toString).start().waitFor() == 0)
      val store = new StoredStatistics(new FileStatistics(1000))
      def millis(table: String): Long = {
        val start = System.nanoTime()
        store.load(place(d, Seq(table)), domains)
        (System.nanoTime() - start) / 1000000
      }
      try {
        assert(millis("file:/data/hangs") >= 2900)
        assert((1 to 5).map(i => millis(s"file:/data/$i")).sum < 2500)
      } finally Files.newOutputStream(fifo).close()
      store.flush(10000)
    }
  }

  test("applications that write at the same time leave a file of one of them") {
    directory { d =>
      val pool = Executors.newFixedThreadPool(4)
      (1 to 8).foreach { i =>
        pool.execute { () =>
          val statistics = new FileStatistics(100000)
          learned(statistics, s"file:/data/t/$i", new Random(i))
          saved(d, statistics)
        }
      }
      pool.shutdown()
      assert(pool.awaitTermination(60, TimeUnit.SECONDS))
      assert(loaded(d).below(roots, 100000).nonEmpty)
      assert(d.toFile.list.length == 1, d.toFile.list.mkString(" "))
    }
  }

  test("of more files than there is room for the most recently used are kept") {
    val statistics = new FileStatistics(100000)
    (1 to 9).foreach(i => learned(statistics, s"file:/data/t/$i", new Random(7)))
    val most = statistics.size / 3
    assert(statistics.below(roots, most).map(_.path.last).distinct == Seq('7', '8', '9'))
  }
}
