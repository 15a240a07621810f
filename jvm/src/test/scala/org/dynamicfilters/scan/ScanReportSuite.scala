package org.dynamicfilters.scan

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.scan.parquet.{CountedSplit, UnopenedSplit}
import org.dynamicfilters.scan.statistics.{FileIdentity, LearnedRowGroup, LearnedSplit, SplitFacts}
import org.scalatest.funsuite.AnyFunSuite

/** What a scan's counts say of its files. */
class ScanReportSuite extends AnyFunSuite {
  private def report: ScanReport = {
    val r = new ScanReport(1, "1")
    r.opened("read")
    r.files.read += PathHash("read")
    r.opened("of no use")
    r.leftUnopened(PathHash("left"))
    r.leftUnopened(PathHash("left"))
    // Of one split a filter knew enough, of another it did not.
    r.leftUnopened(PathHash("read"))
    r
  }

  test("of a query that came to its end, what was not read was skipped") {
    assert(report.files.counts.pruned(total = 5, cameToEnd = true) == 4)
    assert(report.files.counts.unopened(total = 5, cameToEnd = true) == 3)
  }

  test("while a query runs, and after it failed, files that were not reached were not skipped") {
    assert(report.files.counts.pruned(total = 5, cameToEnd = false) == 1)
    assert(report.files.counts.unopened(total = 5, cameToEnd = false) == 1)
    assert(new ScanReport(1, "1").files.counts.pruned(total = 5, cameToEnd = false) == 0)
  }

  test("where the number of files is not known, none is said to be skipped") {
    for (toEnd <- Seq(true, false)) {
      assert(report.files.counts.pruned(total = 0, toEnd) == 0)
      assert(report.files.counts.unopened(total = 0, toEnd) == 0)
    }
  }

  test("reports of executors are merged") {
    val other = new ScanReport(1, "2")
    other.opened("left")
    val all = report
    all.merge(other)
    assert(all.files.counts.unopened(total = 5, cameToEnd = false) == 0)
  }

  test("a row group of which two splits of a file that was not opened have a part counts once") {
    val r = report
    val groups = Array(10L, 95L, 200L).map(LearnedRowGroup(_, rows = 7, bytes = 80, ColumnBounds.unknown))
    for ((start, length) <- Seq((0L, 100L), (100L, 100L), (200L, 50L)))
      r.addUnopened(
        PartitionedFile(InternalRow.empty, SparkPath.fromPathString("f"), start, length),
        new SplitFacts(Array(groups), Array.empty, Some(1)),
        isNarrowed = false
      )
    assert((r(ScanCounter.RowGroups), r(ScanCounter.RowGroupsPruned), r(ScanCounter.Rows)) == (3, 3, 21))
  }

  private def encoded(value: AnyRef): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new ObjectOutputStream(bytes)
    out.writeObject(value)
    out.close()
    bytes.toByteArray
  }

  private def sent[A <: AnyRef](value: A): A =
    new ObjectInputStream(new ByteArrayInputStream(encoded(value))).readObject().asInstanceOf[A]

  test("a report comes as it was sent") {
    val r = report
    (1 to 3).foreach(_ => r.addReason(Reasons.FileChanged))
    r.learned += LearnedSplit(
      "f",
      FileIdentity(1, 2),
      "k",
      0,
      10,
      Array(LearnedRowGroup(5, 6, 7, ColumnBounds.unknown))
    )
    r.files.unknown += UnopenedSplit("g", 1, 2, CountedSplit(1, 2, 3))
    val s = sent(r)
    assert(s.executionId == 1 && s.executorId == "1")
    assert(s.counts.toSeq == r.counts.toSeq)
    assert(s.files.read == r.files.read && s.files.opened == r.files.opened && s.files.left == r.files.left)
    assert(s.reasons == r.reasons && s.files.unknown == r.files.unknown)
    assert(s.learned.map(l => (l.path, l.rowGroups.toSeq)) == r.learned.map(l => (l.path, l.rowGroups.toSeq)))
    s.add(ScanCounter.Rows, 1) // and may be changed
    assert(s(ScanCounter.Rows) == r(ScanCounter.Rows) + 1)
  }

  test("it takes few bytes, as each task sends one") {
    assert(encoded(report).length < 2000)
  }

  test("of an execution that has ended the numbers of files stay, not the files") {
    val all = new ScanAccumulator(_ => ())
    all.add(report)
    val other = new ScanReport(2, "1")
    other.opened("other")
    all.add(other)
    val before = all.report(1)
    all.endedExecution(1)
    val after = all.report(1)
    val files = after.files
    assert(files.left.isEmpty && files.opened.isEmpty && files.read.isEmpty && files.unknown.isEmpty)
    for (toEnd <- Seq(true, false)) {
      assert(after.files.counts.pruned(total = 5, toEnd) == before.files.counts.pruned(total = 5, toEnd))
      assert(after.files.counts.unopened(total = 5, toEnd) == before.files.counts.unopened(total = 5, toEnd))
    }
    assert(after.counts.toSeq == before.counts.toSeq)
    assert(all.report(2).files.opened.size == 1)
  }

  test("of an execution that has ended the figures of thousands of executors are kept together") {
    val all = new ScanAccumulator(_ => ())
    for (execution <- 1 to 2; executor <- 1 to 2000) {
      val r = new ScanReport(execution.toLong, executor.toString)
      r.add(ScanCounter.Rows, executor.toLong)
      all.add(r)
    }
    all.endedExecution(1)
    val kept = all.byExecutor(1)
    assert(kept.size == ScanReport.MostExecutors && kept.count(_.executorId == "others") == 1)
    assert(kept.map(_(ScanCounter.Rows)).sum == 2000L * 2001 / 2 && all.report(1)(ScanCounter.Rows) == 2000L * 2001 / 2)
    assert(all.byExecutor(2).size == 2000)
  }
}
