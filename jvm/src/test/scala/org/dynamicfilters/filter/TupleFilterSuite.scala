package org.dynamicfilters.filter

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.ColumnVector

/** Tuples of keys: from a build side's rows to the rows that a scan selects. */
class TupleFilterSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import TupleFilterSuite._
  import ValueFilter._

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 200, sizeRange = 30)

  private val limits = KeyLimits(maxRows = 1000000, inMaxValues = 10000, bloomFpp = 0.01, maxFilterBytes = 8L << 20)
  private val unknown = Seq(None, None)

  private def parts(types: Seq[Values], nullsMatch: Seq[Boolean]): IndexedSeq[TuplePart] =
    types.zip(nullsMatch).map { case (t, n) => TuplePart(t.domain, n) }.toIndexedSeq

  private def collect(
      ps: IndexedSeq[TuplePart],
      rows: Seq[Seq[Any]],
      limits: KeyLimits,
      partitions: Int
  ): KeyPartial = {
    val c = new TupleCollector(ps, limits, partitions)
    val toUnsafe = UnsafeProjection.create(ps.map(_.domain.dataType).toArray[DataType])
    // The same row again and again, as operators have it.
    rows.foreach(r => c.add(toUnsafe(InternalRow(r: _*)), ps.indices.toArray))
    c.result()
  }

  private def selected(
      ps: IndexedSeq[TuplePart],
      filter: ValueFilter,
      vectors: Seq[ColumnVector],
      fixed: IndexedSeq[Option[AnyRef]],
      rows: Int
  ): Seq[Int] = {
    val s = new Selection(rows.max(1))
    s.all(rows)
    new TupleSelector(ps, fixed).select(filter, vectors(_), s)
    s.rows.take(s.count).toSeq
  }

  private def select(ps: IndexedSeq[TuplePart], filter: ValueFilter, rows: Seq[Seq[Any]]): Seq[Int] =
    selected(ps, filter, vectors(ps, rows), ps.map(_ => None), rows.size)

  private def vectors(ps: IndexedSeq[TuplePart], rows: Seq[Seq[Any]]): Seq[ColumnVector] =
    ps.indices.map(i => Vectors.onHeap(ps(i).domain.dataType, rows.map(_(i))))

  /** What Spark's join says of two tuples. */
  private def areEqual(ps: IndexedSeq[TuplePart], a: Seq[Any], b: Seq[Any]): Boolean = ps.indices.forall { i =>
    val d = ps(i).domain
    if (a(i) == null || b(i) == null) ps(i).nullsMatch && a(i) == null && b(i) == null
    else d.compare(d.fromInternal(a(i)), d.fromInternal(b(i))) == 0
  }

  private val cases: Gen[Case] = for {
    n <- Gen.choose(2, 3)
    types <- Gen.listOfN(n, Gen.oneOf(Values.all))
    nulls <- Gen.listOfN(n, Gen.oneOf(true, false))
    row = types.foldRight(Gen.const(List.empty[Any]))((t, rest) => t.nullable.flatMap(v => rest.map(v :: _)))
    partitions <- Gen.choose(1, 3)
    build <- Gen.listOfN(partitions, Gen.listOf(row))
    strangers <- Gen.listOf(row)
    // Of values that the build side has, in other combinations too.
    mixed <- Gen.listOf(
      (0 until n).foldRight(Gen.const(List.empty[Any])) { (i, rest) =>
        val values = build.flatten.map(_(i))
        (if (values.isEmpty) types(i).nullable else Gen.oneOf(values)).flatMap(v => rest.map(v :: _))
      }
    )
  } yield Case(types, parts(types, nulls), build, strangers ++ mixed ++ build.flatten)

  test("rows of every combination of types are selected whose tuples the build side has, and no others") {
    forAll(cases) { c =>
      val partials = c.build.map(collect(c.parts, _, limits, c.build.size))
      val built = TupleBuilder.build(partials, limits, c.types.map(_ => None)).fold(r => fail(r.text), identity)
      val expected = c.probe.indices.filter(i => c.build.flatten.exists(areEqual(c.parts, _, c.probe(i))))
      assert(select(c.parts, built.filter, c.probe) == expected)
    }
  }

  test("under any limits no row is lost whose tuple the build side has") {
    val anyLimits = for {
      rows <- Gen.oneOf(1, 5, 1000000)
      in <- Gen.oneOf(0, 3, 10000)
      bytes <- Gen.oneOf(0L, 60L, 200L, 8L << 20)
    } yield KeyLimits(rows, in, 0.01, bytes)
    forAll(cases, anyLimits) { (c, limits) =>
      val partials = c.build.map(collect(c.parts, _, limits, c.build.size))
      TupleBuilder.build(partials, limits, c.types.map(_ => None)).foreach { built =>
        val found = select(c.parts, built.filter, c.probe).toSet
        c.probe.indices.foreach { i =>
          if (c.build.flatten.exists(areEqual(c.parts, _, c.probe(i)))) assert(found(i))
        }
        assert(FilterCodec.sizeOf(built.filter) <= limits.maxFilterBytes.max(30))
      }
    }
  }

  test("the filter is the same after it was encoded") {
    forAll(cases, Gen.oneOf(0, 10000)) { (c, inMaxValues) =>
      val partials = c.build.map(collect(c.parts, _, limits, c.build.size))
      assert(partials.map(p => KeyPartial.decode(p.encode)) == partials.map(Right(_)))
      val built = TupleBuilder.build(partials, limits.copy(inMaxValues = inMaxValues), c.types.map(_ => None))
      val filter = built.fold(r => fail(r.text), _.filter)
      assert(FilterCodec.decode(FilterCodec.encode(filter)) == Right(filter))
    }
  }

  test("a key that is the same in all rows is as good as a column of it") {
    forAll(cases) { c =>
      val partials = c.build.map(collect(c.parts, _, limits, c.build.size))
      val filter = TupleBuilder.build(partials, limits, c.types.map(_ => None)).fold(r => fail(r.text), _.filter)
      c.probe.headOption.foreach { first =>
        val rows = c.probe.map(r => first.head +: r.tail)
        val fixed = Some(c.parts.head.domain.fromInternal(first.head)) +: c.parts.tail.map(_ => None)
        val vs = null +: vectors(c.parts, rows).tail
        assert(selected(c.parts, filter, vs, fixed, rows.size) == select(c.parts, filter, rows))
      }
    }
  }

  test("a number has the same hash in each type of integers") {
    val types = Seq(ByteType, ShortType, IntegerType, LongType)
    forAll(Gen.choose(Byte.MinValue, Byte.MaxValue), Gen.oneOf(types), Gen.oneOf(types)) { (n, a, b) =>
      def as(t: DataType): Any = t match {
        case ByteType => n
        case ShortType => n.toShort
        case IntegerType => n.toInt
        case _ => n.toLong
      }
      def tuple(t: DataType) = IndexedSeq.fill(2)(TuplePart(KeyDomain.of(t).toOption.get, nullsMatch = false))
      val built = TupleBuilder.build(Seq(collect(tuple(a), Seq(Seq(as(a), as(a))), limits, 1)), limits, unknown)
      assert(select(tuple(b), built.toOption.get.filter, Seq(Seq(as(b), as(b)))) == Seq(0))
    }
  }

  test("the order of keys counts, and so does which of them is null") {
    val p = parts(Seq(Values.ints, Values.ints), Seq(true, true))
    val filter = TupleBuilder
      .build(Seq(collect(p, Seq(Seq(1, 2), Seq(0, null), Seq(null, null)), limits, 1)), limits, unknown)
      .toOption
      .get
      .filter
    val rows = Seq(Seq(1, 2), Seq(2, 1), Seq(0, 0), Seq(0, null), Seq(null, 0), Seq(null, null), Seq(1, 1))
    assert(select(p, filter, rows) == Seq(0, 3, 5))
  }

  test("hashes are spread: those of small tuples are all different") {
    val hashes =
      for (x <- -300 to 300; y <- -300 to 300) yield TupleHash.mix(TupleHash.mix(TupleHash.empty, x.toLong), y.toLong)
    assert(hashes.distinct.size == hashes.size)
    // Each bit is set in about half of them.
    (0 until 64).foreach { bit =>
      val share = hashes.count(h => ((h >>> bit) & 1) == 1).toDouble / hashes.size
      assert(share > 0.49 && share < 0.51, s"bit $bit")
    }
  }

  private val twoInts = parts(Seq(Values.ints, Values.ints), Seq(false, false))
  private def diagonal(n: Int) = collect(twoInts, (0 until n).map(i => Seq(i, i)), limits, 1)

  test("few tuples are listed, many become a bloom filter") {
    val few = TupleBuilder.build(Seq(diagonal(951)), limits, Seq(Some(951L), Some(951L))).toOption.get.filter
    assert(TupleText.form(few) == "in")
    assert(TupleText.expression(few, TupleText.columns(Seq("x", "y"))) == "(x, y) IN (951 tuples)")
    val many = TupleBuilder.build(Seq(diagonal(20000)), limits, unknown).toOption.get.filter
    assert(TupleText.form(many) == "bloom")
    assert(TupleText.expression(many, "(x, y)") == "(x, y) IN (bloom filter of 20000 tuples)")
    val strangers = (0 until 10000).map(i => Seq(i, i + 1))
    assert(select(twoInts, many, strangers).size < 300)
  }

  test("a build side without a tuple that can match lets nothing pass") {
    val halves = collect(twoInts, Seq(Seq(1, null), Seq(null, 2)), limits, 1)
    Seq(Seq(halves), Seq(collect(twoInts, Nil, limits, 1)), Nil).foreach { partials =>
      assert(TupleBuilder.build(partials, limits, Seq(Some(1L), Some(1L))).map(_.filter) == Right(Nothing))
    }
  }

  test("there is no filter where the single keys leave out as much") {
    def reason(n: Int, distinct: Option[Long]*) = TupleBuilder.build(Seq(diagonal(n)), limits, distinct).left.toOption
    assert(reason(1, Some(1L), Some(1L)).exists(_.text.contains("leave out as much")))
    assert(reason(90, Some(10L), Some(10L)).exists(_.text.contains("the 90 tuples are most of the 100 combinations")))
    assert(reason(60, Some(10L), Some(10L)).isEmpty)
    val never = limits.copy(tupleShare = 1)
    assert(TupleBuilder.build(Seq(diagonal(99)), never, Seq(Some(10L), Some(10L))).isRight)
    assert(TupleBuilder.build(Seq(diagonal(100)), never, Seq(Some(10L), Some(10L))).isLeft)
    assert(reason(90, Some(90L), Some(90L)).isEmpty)
    assert(reason(90, None, Some(1L)).isEmpty, "what is not known does not speak against the tuples")
  }

  test("more tuples than the limits allow give no filter, and cost no memory") {
    val tight = limits.copy(maxFilterBytes = 16 * 1024)
    val c = new TupleCollector(twoInts, tight, 1)
    (0 until 5000).foreach(i => c.add(InternalRow(i, i), Array(0, 1)))
    assert(c.outgrown)
    val partial = c.result()
    assert(KeyPartial.decode(partial.encode) == Right(partial))
    assert(TupleBuilder.build(Seq(partial), tight, unknown).left.exists(_.text.contains("more than 2048 tuples")))
    assert(TupleBuilder.build(Seq(diagonal(11)), limits.copy(maxRows = 10), unknown).isLeft)
    assert(TupleBuilder.build(Seq(diagonal(5000)), limits.copy(maxFilterBytes = 100), unknown).isLeft)
  }

  test("how many keys a filter passes is known where it knows them one by one") {
    def built(values: Iterable[Any], limits: KeyLimits, nulls: Boolean) = {
      val c = KeyCollector(Values.ints.domain, limits, 1)
      values.foreach(v => c.add(InternalRow(v), 0))
      KeyPartial.build(Seq(c.result()), limits, nulls)
    }
    assert(built(1 to 7, limits, nulls = false).distinct.contains(7))
    assert(built(Seq(1, 5, null), limits, nulls = true).distinct.contains(3))
    assert(built(Seq(1, 5, null), limits, nulls = false).distinct.contains(2))
    assert(built(Nil, limits, nulls = false).distinct.contains(0))
    assert(built((1 to 7).map(_ * 10), limits.copy(maxRows = 3), nulls = false).distinct.isEmpty)
  }

  test("forms that are not made for tuples lose no row") {
    val rows = Seq(Seq(1, 1), Seq(7, 9))
    // What late executors get where the set is too large to be sent.
    val range = TupleBuilder.build(Seq(diagonal(3)), limits, unknown).toOption.get.filter.asInstanceOf[Members].range
    Seq(All, range, NullsOnly(TupleHash.domain)).foreach(f => assert(select(twoInts, f, rows) == Seq(0, 1)))
    assert(select(twoInts, Nothing, rows).isEmpty)
  }

  test("vectors of another type lose no row") {
    val filter = TupleBuilder.build(Seq(diagonal(3)), limits, unknown).toOption.get.filter
    val wide = Vectors.onHeap(LongType, Seq(7L, 8L))
    assert(selected(twoInts, filter, Seq(wide, wide), IndexedSeq(None, None), 2) == Seq(0, 1))
  }
}

object TupleFilterSuite {

  /** @param build
    *   rows by partition of the build side
    */
  private final case class Case(
      types: Seq[Values],
      parts: IndexedSeq[TuplePart],
      build: Seq[Seq[Seq[Any]]],
      probe: Seq[Seq[Any]]
  )
}
