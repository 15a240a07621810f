package org.dynamicfilters.scan

import org.apache.spark.sql.execution.LocalTableScanExec
import org.apache.spark.sql.types.IntegerType
import org.dynamicfilters.filter.{ColumnBounds, End, KeyDomain, ValueFilter}
import org.dynamicfilters.scan.Pruner._
import org.dynamicfilters.state.{TopKRef, TopKSpec}
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** What bounds say of rows is true of each row within them. */
class PrunerSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val int = KeyDomain.forType(IntegerType).toOption.get
  private val ref = TopKRef(LocalTableScanExec(Nil, Nil, None), TopKSpec(int, 3, true, false, true))
  private def columns(either: Boolean*) =
    either.toIndexedSeq.map(ScanColumn(ref, int, "k", 0, -1, ScanPlace(crossesExchange = false, Wait.No), _))

  private val filter: Gen[ValueFilter] = {
    val end = Gen.option(Gen.choose(-9, 9).map(i => End(int.fromInternal(i), inclusive = true)))
    val ranges = for { l <- end; u <- end; nulls <- Gen.oneOf(true, false) } yield ValueFilter.range(int, l, u, nulls)
    Gen.frequency(8 -> ranges, 1 -> Gen.const(ValueFilter.All), 1 -> Gen.const(ValueFilter.Nothing))
  }

  private val key: Gen[AnyRef] = Gen.frequency(6 -> Gen.choose(-9, 9).map(int.fromInternal(_)), 1 -> Gen.const(null))
  private val keys: Gen[Seq[AnyRef]] = Gen.choose(1, 4).flatMap(Gen.listOfN(_, key))

  private def boundsOf(keys: Seq[AnyRef]): ColumnBounds =
    keys.map(ColumnBounds.exact).reduce(ColumnBounds.merge(_, _)(int))

  test("rows within excluded bounds all fail, by one required filter or by all of the others") {
    forAll(Gen.listOfN(4, filter), Gen.listOfN(4, keys)) { (filters, values) =>
      val spec = columns(false, false, true, true)
      val pruner = new Pruner(spec, filters.toIndexedSeq)
      if (pruner.excludes(i => boundsOf(values(i)))) {
        val rows = for (a <- values(0); b <- values(1); c <- values(2); d <- values(3)) yield Seq(a, b, c, d)
        assert(!rows.exists { row =>
          val passing = filters.zip(row).map { case (f, k) => f.passes(k) }
          passing(0) && passing(1) && (passing(2) || passing(3))
        })
      }
    }
  }

  test("a filter's effect is that on each row") {
    forAll(filter, keys) { (f, values) =>
      val passing = values.map(f.passes)
      new Pruner(columns(false), IndexedSeq(f)).effect(0, boundsOf(values)) match {
        case PassesNone => assert(!passing.contains(true))
        case PassesAll => assert(!passing.contains(false))
        case PassesValues => assert(values.zip(passing).forall { case (k, p) => p || k == null })
        case PassesSome => assert(f != ValueFilter.All && f != ValueFilter.Nothing)
      }
    }
  }

  test("unknown filters and unknown bounds exclude nothing") {
    val nothing = ColumnBounds(null, null, mayHaveNulls = false, mayHaveValues = false)
    assert(!new Pruner(columns(false, true), IndexedSeq.fill(2)(ValueFilter.All)).excludes(_ => nothing))
    val one = ValueFilter.range(int, Some(End(int.fromInternal(1), inclusive = true)), None, nulls = false)
    val pruner = new Pruner(columns(false), IndexedSeq(one))
    assert(!pruner.excludes(_ => ColumnBounds.unknown) && pruner.effect(0, ColumnBounds.unknown) == PassesSome)
  }
}
