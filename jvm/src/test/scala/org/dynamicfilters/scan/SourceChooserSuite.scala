package org.dynamicfilters.scan

import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.execution.LocalTableScanExec
import org.apache.spark.sql.sources._
import org.apache.spark.sql.types._
import org.dynamicfilters.filter.{ColumnBounds, End, KeyDomain, UserForms, ValueFilter}
import org.dynamicfilters.scan.sources.{OrcPredicates, SourceChooser, SourcePart}
import org.dynamicfilters.state.{TopKRef, TopKSpec}
import org.scalatest.funsuite.AnyFunSuite

/** Parts of DataSource V2 scans: left out by what is known of them, best first under a TopK; and what ORC is told. */
class SourceChooserSuite extends AnyFunSuite {
  private val int = KeyDomain.forType(IntegerType).toOption.get
  private def key(i: Int) = int.fromInternal(i)
  private val topK = TopKRef(
    LocalTableScanExec(Nil, Nil, None),
    TopKSpec(int, 3, ascending = false, nullsFirst = false, tiesFree = true)
  )
  private val spec = new ScanSpec(
    ScanSpec.nextId(),
    new StructType().add("k", IntegerType),
    IndexedSeq(ScanColumn(topK, int, "k", 0, -1, ScanPlace(crossesExchange = false, Wait.No))),
    Nil,
    "",
    false,
    0.5
  )

  private object Split extends InputPartition

  private def part(i: Int, known: Boolean = true) = {
    val bounds = if (known) ColumnBounds(key(i * 10), key(i * 10 + 9), false, true) else ColumnBounds.unknown
    new SourcePart(Split, IndexedSeq(bounds), 100, i.toLong)
  }

  private def numbers(c: SourceChooser.Choice) = c.splits.map(_.parts.map(_.file))

  private val below20 = ValueFilter.range(int, None, Some(End(key(20), inclusive = false)), nulls = false)
  private def pruner(of: ValueFilter) = new Pruner(spec.columns, IndexedSeq(of))
  private val splits = Seq(Seq(part(1), part(0)), Seq(part(3), part(2, known = false)))

  test("parts come best first, those of which nothing is known last, as many a task as before") {
    val choice =
      SourceChooser.choose(splits, spec, pruner(ValueFilter.All), keepsPartitions = false, SplitChooser.Tasks(2, 0))
    assert(numbers(choice) == Seq(Seq(3, 1), Seq(0, 2)) && choice.excluded == 0)
  }

  test("parts that a filter excludes are left out, those that are unknown never") {
    val choice =
      SourceChooser.choose(splits, spec, pruner(below20), keepsPartitions = false, SplitChooser.Tasks(2, 0))
    assert(numbers(choice).flatten == Seq(1, 0, 2) && choice.excluded == 1)
    val none = SourceChooser.choose(
      splits,
      spec,
      pruner(ValueFilter.Nothing),
      keepsPartitions = false,
      SplitChooser.Tasks(2, 0)
    )
    assert(numbers(none).flatten.isEmpty && none.excluded == 4)
  }

  test("partitions stay where somebody relies on them") {
    val choice =
      SourceChooser.choose(splits, spec, pruner(below20), keepsPartitions = true, SplitChooser.Tasks(2, 0))
    assert(numbers(choice) == Seq(Seq(1, 0), Seq(2)))
  }

  test("what ORC is told is never less than what passes") {
    def range(lower: Option[Int], upper: Option[Int], inclusive: Boolean, nulls: Boolean) = ValueFilter.range(
      int,
      lower.map(l => End(key(l), inclusive)),
      upper.map(u => End(key(u), inclusive)),
      nulls
    )
    def told(f: ValueFilter) = OrcPredicates.fromFilter("k", f)
    assert(
      told(range(Some(3), Some(9), inclusive = true, nulls = false)).contains(
        And(GreaterThanOrEqual("k", 3), LessThanOrEqual("k", 9))
      )
    )
    assert(told(range(Some(3), None, inclusive = false, nulls = false)).contains(GreaterThan("k", 3)))
    assert(told(range(Some(3), Some(9), inclusive = true, nulls = true)).isEmpty && told(ValueFilter.All).isEmpty)
    assert(told(ValueFilter.NullsOnly(int)).contains(IsNull("k")))
    def values(n: Int) = UserForms.values(int, (1 to n).iterator.map(i => key(i * 3)), nulls = false, 20000)
    assert(told(values(2)).contains(In("k", Array[Any](3, 6))))
    assert(told(values(300)).contains(And(GreaterThanOrEqual("k", 3), LessThanOrEqual("k", 900))))
    assert(
      !OrcPredicates.supports(StructField("a.b", IntegerType)) && !OrcPredicates.supports(StructField("d", DateType))
    )
    assert(!OrcPredicates.supports(StructField("c", StringType)))
  }
}
