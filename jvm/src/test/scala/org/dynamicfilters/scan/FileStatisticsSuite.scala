package org.dynamicfilters.scan

import org.apache.spark.sql.types.{ArrayType, IntegerType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}
import org.dynamicfilters.scan.statistics.{ChunkSizes, FileIdentity, FileStatistics, LearnedRowGroup, LearnedSplit}
import org.dynamicfilters.state.TopKSpec
import org.scalatest.funsuite.AnyFunSuite

class FileStatisticsSuite extends AnyFunSuite {
  private val int = KeyDomain.forType(IntegerType).toOption.get
  private def bounds(min: Int, max: Int, nulls: Boolean = false) =
    ColumnBounds(int.fromInternal(min), int.fromInternal(max), nulls, mayHaveValues = true)
  private def group(middle: Long, b: ColumnBounds) = LearnedRowGroup(middle, 10, 100, b)
  private def split(path: String, start: Long, end: Long, groups: LearnedRowGroup*) =
    LearnedSplit(path, FileIdentity(1000, 77), "k", start, end, groups.toArray)
  private def find(s: FileStatistics, path: String, start: Long, end: Long, modified: Long = 77, column: String = "k") =
    s.find(path, FileIdentity(1000, modified), column, start, end).map(_.toSeq)

  test("a split is found again as it was learned, by file, time and column") {
    val s = new FileStatistics(100)
    val g = group(50, bounds(1, 2))
    s.offer(split("f", 0, 1000, g))
    assert(find(s, "f", 0, 1000).contains(Seq(g)))
    assert(find(s, "f", 0, 1000, modified = 78).isEmpty && find(s, "f", 0, 1000, column = "j").isEmpty)
    assert(find(s, "g", 0, 1000).isEmpty && s.find("f", FileIdentity(999, 77), "k", 0, 1000).isEmpty)
  }

  test("a smaller split may have the row groups that have a part in it: Parquet's sizes may be others") {
    val s = new FileStatistics(100)
    val groups = Seq(group(100, bounds(1, 2)), group(500, bounds(3, 4)), group(900, bounds(5, 6)))
    s.offer(split("f", 0, 1000, groups: _*))
    assert(find(s, "f", 0, 450).contains(groups.take(1)))
    assert(find(s, "f", 0, 451).contains(groups.take(2)))
    assert(find(s, "f", 549, 1000).contains(groups.drop(1)))
    assert(find(s, "f", 550, 1000).contains(groups.drop(2)))
    // Of a split that no row group has a part of, nothing is known: sizes in a footer may be any.
    assert(find(s, "f", 550, 600).isEmpty)
  }

  test("a larger split than was learned is not known") {
    val s = new FileStatistics(100)
    s.offer(split("f", 0, 500, group(100, bounds(1, 2))))
    assert(find(s, "f", 0, 1000).isEmpty && find(s, "f", 499, 501).isEmpty)
  }

  test("what was known of a row group is kept when a later reading knows less") {
    val s = new FileStatistics(100)
    s.offer(split("f", 0, 1000, group(100, bounds(1, 2)), group(500, ColumnBounds.unknown)))
    s.offer(split("f", 0, 1000, group(100, ColumnBounds.unknown), group(500, bounds(3, 4))))
    assert(find(s, "f", 0, 1000).contains(Seq(group(100, bounds(1, 2)), group(500, bounds(3, 4)))))
    assert(s.size == 3)
  }

  test("the least recently used files are forgotten first") {
    val s = new FileStatistics(6)
    Seq("a", "b", "c").foreach(p => s.offer(split(p, 0, 1000, group(1, bounds(1, 2)))))
    assert(find(s, "a", 0, 1000).isDefined && s.size == 6)
    s.offer(split("d", 0, 1000, group(1, bounds(1, 2))))
    assert(s.size == 6)
    assert(find(s, "b", 0, 1000).isEmpty && find(s, "a", 0, 1000).isDefined && find(s, "d", 0, 1000).isDefined)
  }

  test("bounds of a split are those of its row groups together") {
    val b = FileStatistics.boundsOf(
      Array(group(1, bounds(1, 2)), group(2, ColumnBounds.onlyNulls), group(3, bounds(-5, 0))),
      int
    )
    assert(b == bounds(-5, 2, nulls = true))
    assert(
      FileStatistics.boundsOf(
        Array(group(1, bounds(1, 2)), group(2, ColumnBounds.unknown)),
        int
      ) == ColumnBounds.unknown
    )
    val none = FileStatistics.boundsOf(Array.empty, int)
    assert(!none.mayHaveValues && !none.mayHaveNulls)
  }

  private def spec(ascending: Boolean, nullsFirst: Boolean) = TopKSpec(int, 1, ascending, nullsFirst, tiesFree = true)
  private def ordered(s: TopKSpec, all: ColumnBounds*): Seq[ColumnBounds] = all.sortWith(BestFirst.before(_, _, s))

  test("what may hold the best row is read first and what is unknown last") {
    val (low, high, nulls) = (bounds(1, 9), bounds(5, 20), ColumnBounds.onlyNulls)
    val mixed = bounds(7, 8, nulls = true)
    val u = ColumnBounds.unknown
    assert(ordered(spec(true, false), u, nulls, high, mixed, low) == Seq(low, high, mixed, nulls, u))
    assert(ordered(spec(false, false), u, nulls, mixed, low, high) == Seq(high, low, mixed, nulls, u))
    assert(ordered(spec(true, true), u, high, low, nulls, mixed) == Seq(nulls, mixed, low, high, u))
  }

  test("equal bounds keep their order") {
    val same = (1 to 5).map(i => group(i.toLong, bounds(1, 1)))
    assert(same.sortWith((a, b) => BestFirst.before(a.bounds, b.bounds, spec(true, true))) == same)
  }

  test("long bounds count for what they take") {
    val text = KeyDomain.forType(StringType).toOption.get
    val long = text.fromInternal(UTF8String.fromString("x" * 1000))
    val s = new FileStatistics(100)
    val g = LearnedRowGroup(50, 10, 100, ColumnBounds(long, long, mayHaveNulls = false, mayHaveValues = true))
    (1 to 10).foreach(i => s.offer(split(s"f$i", 0, 1000, g)))
    assert(s.size == 4 * 22)
    assert(find(s, "f6", 0, 1000).isEmpty && find(s, "f7", 0, 1000).isDefined)
  }

  test("a scan reads the leaves of its columns, and no others") {
    val schema = new StructType()
      .add("A", IntegerType)
      .add("s", new StructType().add("x", IntegerType).add("y", ArrayType(IntegerType)))
    val wanted = ChunkSizes.wanted(schema)
    assert(Seq("a", "s.x", "s.y", "s.y.list.element").forall(wanted))
    assert(!Seq("s", "ab", "a1.b", "s.z", "s.xy", "b", "").exists(wanted))
  }
}
