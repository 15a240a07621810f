package org.dynamicfilters.filter

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.ColumnVector

class SelectSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 60, sizeRange = 40)

  private def selected(s: Selection): Seq[Int] = s.rows.take(s.count).toSeq

  private def select(fs: Seq[ValueFilter], v: ColumnVector, rows: Int): Seq[Int] = {
    val s = new Selection(rows)
    s.all(rows)
    fs.foreach(_.select(v, s))
    selected(s)
  }

  private def passing(t: Values, f: ValueFilter, values: Seq[Any]): Seq[Int] =
    values.indices.filter(i => f.passes(t.domain.fromInternal(values(i))))

  private def closing[V <: ColumnVector](v: V)(check: V => Unit): Unit =
    try check(v)
    finally v.close()

  Values.all.foreach { t =>
    val vectors: Seq[(String, Seq[Any] => ColumnVector)] = Seq(
      "on-heap vector" -> (Vectors.onHeap(t.dataType, _)),
      "off-heap vector" -> (Vectors.offHeap(t.dataType, _)),
      "vector of another source" -> ((x: Seq[Any]) => new Vectors.Foreign(t.dataType, x.toIndexedSeq))
    ) ++ Option.when(t.dataType != BooleanType) {
      "dictionary-encoded vector" -> ((x: Seq[Any]) => Vectors.dictionaryEncoded(t.dataType, x))
    }

    vectors.foreach { case (name, make) =>
      test(s"in an $name of $t those rows are selected that pass".replace("an vector", "a vector")) {
        forAll(t.filters, Gen.oneOf(Gen.listOf(t.nullable), Gen.listOf(t.notNull))) { (f, values) =>
          closing(make(values))(v => assert(select(Seq(f), v, values.size) == passing(t, f, values)))
        }
      }
    }

    test(s"in a constant vector of $t all rows are selected or none") {
      forAll(t.filters, t.nullable) { (f, value) =>
        val v = Vectors.constant(t.dataType, value, 3)
        assert(select(Seq(f), v, 3) == passing(t, f, Seq.fill(3)(value)))
      }
    }

    test(s"a selection of $t is narrowed by one filter after the other") {
      forAll(t.filters, t.filters, Gen.listOf(t.nullable)) { (f, g, values) =>
        closing(Vectors.onHeap(t.dataType, values)) { v =>
          assert(select(Seq(f, g), v, values.size) == passing(t, f, values).intersect(passing(t, g, values)))
        }
      }
    }

    t.domain match {
      case d: LongDomain =>
        test(s"a vector gives the code that its value of $t has") {
          forAll(t.notNull) { value =>
            val expected = d.fromInternal(value)
            closing(Vectors.onHeap(t.dataType, Seq(value)))(v => assert(Long.box(d.longFromVector(v, 0)) == expected))
            assert(Long.box(d.longFromVector(new Vectors.Foreign(t.dataType, IndexedSeq(value)), 0)) == expected)
          }
        }
      case _ =>
    }
  }

  test("a vector of another type than the filter's loses no row") {
    val filter = ValueFilter.range(Values.ints.domain, Some(End(Long.box(5), inclusive = true)), None, nulls = false)
    closing(Vectors.onHeap(LongType, Seq(1L, 9L, null)))(v => assert(select(Seq(filter), v, 3) == Seq(0, 1, 2)))
    val nulls = ValueFilter.NullsOnly(Values.ints.domain)
    closing(Vectors.onHeap(LongType, Seq(1L, 9L, null)))(v => assert(select(Seq(nulls), v, 3) == Seq(0, 1, 2)))
  }

  test("a selection starts with all rows of a batch and is used again for the next") {
    val s = new Selection(4)
    assert(selected(s).isEmpty)
    s.all(4)
    assert(selected(s) == Seq(0, 1, 2, 3))
    s.count = 1
    s.all(2)
    assert(selected(s) == Seq(0, 1))
    intercept[IllegalArgumentException](s.all(5))
  }
}
