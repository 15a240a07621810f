package org.dynamicfilters.scan

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.BoundReference
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.types.{IntegerType, StructType}
import org.dynamicfilters.filter.{ColumnBounds, End, KeyDomain, KeyLimits, ValueFilter}
import org.dynamicfilters.scan.statistics.{FileIdentity, FileStatistics, LearnedRowGroup, LearnedSplit}
import org.dynamicfilters.state.{JoinRef, NoTables}
import org.scalatest.funsuite.AnyFunSuite

/** The driver leaves out splits by partition values and tables' logs. By learned statistics tasks do. */
class SplitChooserSuite extends AnyFunSuite {
  private val int = KeyDomain.forType(IntegerType).toOption.get
  private val plan: SparkPlan = LocalTableScanExec(Nil, Nil, None)
  private val ref =
    JoinRef(
      "k=j",
      plan,
      BoundReference(0, IntegerType, nullable = true),
      nullsMatch = false,
      KeyLimits(100, 1000, 0.01, 1 << 20),
      new NoTables
    )
  private val inFiles = ScanColumn(ref, int, "k", 0, -1, ScanPlace(crossesExchange = false, Wait.No))
  private val ofPartitions = ScanColumn(ref, int, "p", -1, 0, ScanPlace(crossesExchange = false, Wait.No))

  private def specOf(column: ScanColumn) = new ScanSpec(
    ScanSpec.nextId(),
    new StructType().add("k", IntegerType),
    IndexedSeq(column),
    Nil,
    "",
    true,
    0.5
  )

  private val below10 = ValueFilter.range(int, None, Some(End(int.fromInternal(10), inclusive = false)), nulls = false)
  private def pruner(of: ValueFilter, column: ScanColumn = inFiles) = new Pruner(IndexedSeq(column), IndexedSeq(of))

  /** Files 0 to 4, of 100 bytes, modified at 7; each has the partition value of its number times 5. */
  private val files = (0 until 5).map { i =>
    val path = SparkPath.fromPathString(s"file:/t/part-$i")
    PartitionedFile(InternalRow(i * 5), path, 0, 100, Array.empty[String], 7L, 100L)
  }
  private val partitions = Seq(FilePartition(0, files.toArray))

  /** Of each file, k is the number times 5, if it was modified at 7. */
  private def learned(spec: ScanSpec, column: ScanColumn): FileStatistics = {
    val statistics = new FileStatistics(1000)
    files.zipWithIndex.foreach { case (f, i) =>
      val groups = Array(LearnedRowGroup(50, 10, 100, ColumnBounds.exact(int.fromInternal(i * 5))))
      statistics.offer(
        LearnedSplit(f.urlEncodedPath, FileIdentity(100, 7), spec.statisticsKey(column), 0, 100, groups)
      )
    }
    statistics
  }

  private val tasks = SplitChooser.Tasks(1, 0)
  private def names(fs: Iterable[PartitionedFile]) = fs.map(_.urlEncodedPath.takeRight(1)).mkString
  private def read(c: SplitChooser.Choice) = names(c.splits.flatMap(_.files.files))
  private def known(c: SplitChooser.Choice) = names(c.splits.flatMap { s =>
    s.files.files.zip(s.facts).collect { case (f, k) if k.hasLearned => f }
  })
  private def choose(column: ScanColumn, filter: ValueFilter, facts: ScanSpec => SplitChooser.FileFacts) = {
    val spec = specOf(column)
    SplitChooser.choose(partitions, spec, pruner(filter, column), facts(spec), tasks)
  }
  private val nothing = SplitChooser.FileFacts(new FileStatistics(10))

  test("files that only learned statistics exclude are left to the tasks") {
    val choice = choose(inFiles, below10, spec => SplitChooser.FileFacts(learned(spec, inFiles))).get
    assert(choice.excluded.isEmpty && read(choice) == "01234" && known(choice) == "01234" && choice.isLearned)
  }

  test("partition values exclude files at once") {
    val choice = choose(ofPartitions, below10, _ => nothing).get
    assert(names(choice.excluded.map(_.file)) == "234" && !choice.isLearned)
    assert(choose(inFiles, below10, _ => nothing).isEmpty)
    val all = choose(inFiles, ValueFilter.All, spec => SplitChooser.FileFacts(learned(spec, inFiles))).get
    assert(read(all) == "01234" && known(all) == "01234")
  }

  test("a file that was listed with another time is not known") {
    val spec = specOf(inFiles)
    val older = Seq(FilePartition(0, files.map(f => f.copy(modificationTime = 6L)).toArray))
    val facts = SplitChooser.FileFacts(learned(spec, inFiles))
    assert(SplitChooser.choose(older, spec, pruner(below10), facts, tasks).isEmpty)
  }

  test("what a table's log says of a file is believed, and goes with the task") {
    val spec = specOf(inFiles)
    def log(f: PartitionedFile) = {
      val i = names(Seq(f)).toLong
      Option.when(i != 1)(
        ColumnBounds(Long.box(i * 4), Long.box(i * 4 + 3), mayHaveNulls = false, mayHaveValues = true)
      )
    }
    val facts = SplitChooser.FileFacts(new FileStatistics(10), _ => log)
    val choice = SplitChooser.choose(partitions, spec, pruner(below10), facts, tasks).get
    assert(names(choice.excluded.map(_.file)) == "34" && read(choice) == "012" && known(choice) == "")
    val bounds = choice.splits.flatMap(s => s.files.files.zip(s.facts).map { case (f, k) => k.bounds(spec, f, 0) })
    assert(bounds.map(b => if (b == ColumnBounds.unknown) "-" else b.min.toString) == Seq("0", "-", "8"))
  }

  test("small files count with what it takes to open them, so that there are as many tasks as in stock Spark") {
    val spec = specOf(inFiles)
    // As Spark packs them, the large one by itself.
    val small =
      (0 until 1000).map(i => files(i % 5).copy(length = 10, filePath = SparkPath.fromPathString(s"file:/s/$i")))
    val large = files.head.copy(length = 5000)
    val packed = Seq(large) +: small.grouped(50).toSeq
    def choose(openCost: Long) = SplitChooser.choose(
      packed.zipWithIndex.map { case (fs, i) => FilePartition(i, fs.toArray) },
      spec,
      pruner(below10),
      SplitChooser.FileFacts(
        new FileStatistics(10),
        _ => f => Option.when(f.length == 5000)(ColumnBounds.exact(int.fromInternal(50)))
      ),
      SplitChooser.Tasks(2, openCost)
    )
    val choice = choose(100).get
    assert(choice.excluded.size == 1 && choice.splits.map(_.files.files.length).max <= 50)
    assert(choice.splits.length == 20)
  }

  test("a file that its task will skip weighs as much as opening it") {
    val spec = specOf(inFiles)
    val many = (0 until 1000).map(i => files(i % 5).copy(filePath = SparkPath.fromPathString(s"file:/s/$i")))
    val statistics = new FileStatistics(100000)
    many.tail.foreach { f =>
      val groups = Array(LearnedRowGroup(50, 10, 100, ColumnBounds.exact(int.fromInternal(20))))
      statistics.offer(
        LearnedSplit(f.urlEncodedPath, FileIdentity(100, 7), spec.statisticsKey(inFiles), 0, 100, groups)
      )
    }
    val planned = many.zipWithIndex.map { case (f, i) => FilePartition(i, Array(f)) }
    def tasksOf(parallelism: Int) = SplitChooser
      .choose(planned, spec, pruner(below10), SplitChooser.FileFacts(statistics), SplitChooser.Tasks(parallelism, 1))
      .get
      .splits
      .map(_.files.files.length)
    assert(tasksOf(1).size == 11 && tasksOf(1).sum == 1000 && tasksOf(100).size > 50)
  }
}
