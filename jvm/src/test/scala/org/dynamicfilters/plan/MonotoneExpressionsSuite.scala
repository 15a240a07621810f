package org.dynamicfilters.plan

import java.time.{LocalDateTime, ZoneId, ZoneOffset}

import scala.util.{Random, Try}

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.dynamicfilters.filter._
import org.scalatest.funsuite.AnyFunSuite

/** Draws values near the edges of types, zones and filters, and compares the filters of columns with Spark's own evaluation. */
class MonotoneExpressionsSuite extends AnyFunSuite {
  private val zones =
    Seq("UTC", "Europe/Berlin", "America/St_Johns", "America/Sao_Paulo", "Pacific/Apia", "Asia/Manila", "+05:30")

  private def column(t: DataType) = AttributeReference("c", t)()

  private def cast(from: DataType, to: DataType, zone: String = "UTC") =
    Cast(column(from), to, Some(zone), EvalMode.ANSI)

  private def expressions: Seq[Expression] = {
    val zoned = zones.flatMap { z =>
      val date = cast(TimestampType, DateType, z)
      val units = Seq("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
      Seq(date, Year(date), cast(DateType, TimestampType, z), cast(TimestampType, TimestampNTZType, z)) ++
        units.map(u => TruncTimestamp(Literal(u), column(TimestampType), Some(z))) ++
        units.take(4).map(u => TruncDate(date, Literal(u)))
    }
    val (i, l) = (column(IntegerType), column(LongType))
    val arithmetic = Seq(
      Add(i, Literal(5)),
      Add(Literal(-7), i),
      Subtract(l, Literal(3L)),
      Multiply(l, Literal(10L)),
      IntegralDivide(l, Literal(1000L)),
      IntegralDivide(cast(IntegerType, LongType), Literal(7L)),
      Add(IntegralDivide(l, Literal(60L)), Literal(1L)),
      UnaryMinus(i),
      UnaryMinus(l),
      Subtract(Literal(5), i),
      Multiply(Literal(-3L), l),
      Subtract(Literal(0L), UnaryMinus(IntegralDivide(l, Literal(60L)))),
      UnaryMinus(Year(cast(TimestampType, DateType, zones.head))),
      Coalesce(Seq(i, Literal(0))),
      Subtract(Literal(5), Coalesce(Seq(i, Literal(-100000)))),
      Add(Coalesce(Seq(l, Literal(Long.MaxValue))), Literal(1L)),
      Year(Coalesce(Seq(cast(TimestampType, DateType), Literal(0, DateType))))
    )
    val casts = Seq(
      cast(ByteType, LongType),
      cast(IntegerType, DoubleType),
      cast(LongType, DoubleType),
      cast(LongType, FloatType),
      cast(LongType, DecimalType(20, 0)),
      cast(IntegerType, DecimalType(12, 2)),
      cast(DecimalType(9, 2), DecimalType(30, 4)),
      cast(DateType, TimestampNTZType),
      cast(TimestampNTZType, DateType),
      cast(TimestampType, LongType)
    )
    zoned ++ arithmetic ++ casts
  }

  /** Codes near the ends of the type, near zero, near powers of two and near changes of the zone's offset. */
  private def draw(d: LongDomain, random: Random): Long = {
    val near = random.nextInt(5) match {
      case 0 => d.least
      case 1 => d.greatest
      case 2 => 1L << random.nextInt(63)
      case 3 => changes(random.nextInt(changes.size)) / (if (d.dataType == DateType) 86400000000L else 1L)
      case _ => random.nextLong()
    }
    val code = near + (if (random.nextBoolean()) random.nextInt(7) - 3
                       else (random.nextGaussian() * math.pow(10, random.nextInt(17).toDouble)).toLong)
    math.max(d.least, math.min(d.greatest, code))
  }

  private lazy val changes: IndexedSeq[Long] = {
    val times = for {
      z <- zones
      rules = ZoneId.of(z).getRules
      year <- Seq(1900, 1911, 1987, 1995, 2011, 2018, 2024)
      next = rules.nextTransition(LocalDateTime.of(year, 1, 1, 0, 0).toInstant(ZoneOffset.UTC)) if next != null
    } yield next.toEpochSecond * 1000000L
    times.toIndexedSeq
  }

  private def valueOf(e: Expression, d: LongDomain, code: Long): Option[AnyRef] =
    Try(e.eval(InternalRowOf(d.toInternal(Long.box(code))))).toOption
      .flatMap(Option(_))
      .map(domain(e.dataType).fromInternal)

  private def InternalRowOf(value: Any) = new GenericInternalRow(Array[Any](value))
  private def domain(t: DataType): KeyDomain = KeyDomain.forType(t).toOption.get

  private def ofKeys(d: KeyDomain, keys: AnyRef*): ValueFilter = {
    val sorted = keys.sortWith((a, b) => d.compare(a, b) < 0).toArray.distinct
    val set = d match {
      case d: LongDomain => LongValues(d, sorted.map(_.asInstanceOf[java.lang.Long].longValue))
      case d: ObjectDomain => ObjectValues(d, sorted)
    }
    ValueFilter.members(set, ValueFilter.Range(d, None, None, nulls = false))
  }

  test("each value passes the column's filter if its key passes the filter") {
    val random = new Random(7)
    val draws = 100000 / expressions.size + 1
    expressions.foreach { e =>
      val (c, computed) = MonotoneExpressions.of(e).getOrElse(fail(s"$e is no computed key"))
      val key = MonotoneExpressions.key(computed, c.dataType, "").getOrElse(fail(s"$e cannot be inverted"))
      val (from, to) = (domain(c.dataType).asInstanceOf[LongDomain], domain(e.dataType))
      var pruned = 0
      val ofNull = Try(computed.eval(InternalRowOf(null))).toOption.map(to.fromInternal)
      (1 to draws).foreach { _ =>
        val x = draw(from, random)
        valueOf(computed, from, x).foreach { k =>
          val other = valueOf(computed, from, draw(from, random)).getOrElse(k)
          val (lo, hi) = if (to.compare(k, other) <= 0) (k, other) else (other, k)
          val end = Some(End(k, inclusive = true))
          val filters = Seq(
            ValueFilter.range(to, end, end, nulls = false),
            ValueFilter.range(to, Some(End(lo, inclusive = true)), Some(End(hi, inclusive = true)), nulls = true),
            ValueFilter.range(to, end, None, nulls = false),
            ValueFilter.range(to, None, end, nulls = false),
            ofKeys(to, k, other)
          )
          val inverses = filters.map(key.inverse)
          filters.zip(inverses).foreach { case (f, inverse) =>
            // The texts of values take most of the time if each assertion has them.
            if (!inverse.passes(Long.box(x)))
              fail(s"$e, $x in ${f.expression("k")}: ${inverse.expression("c")}")
            if (inverse.passes(null) != ofNull.forall(f.passes) && inverse != ValueFilter.All)
              fail(s"$e, NULL in ${f.expression("k")}: ${inverse.expression("c")}")
          }
          if (!inverses.head.passes(Long.box(draw(from, random)))) pruned += 1
        }
      }
      assert(pruned > 0, s"$e excludes nothing")
    }
  }

  test("an expression takes the place of another one's column") {
    val day = MonotoneExpressions.of(cast(TimestampType, DateType)).get._2
    val hour = MonotoneExpressions.of(TruncTimestamp(Literal("HOUR"), column(TimestampType), Some("UTC"))).get._2
    assert(MonotoneExpressions.on(day, hour).collect { case t: TruncTimestamp => t }.size == 1)
  }

  test("functions that are not monotone have no inverse") {
    val i = column(IntegerType)
    val refused = Seq(
      UnaryMinus(i, failOnError = false),
      UnaryMinus(column(DoubleType)),
      Multiply(i, Literal(0)),
      IntegralDivide(cast(IntegerType, LongType), Literal(-3L)),
      Month(cast(TimestampType, DateType)),
      Add(i, i),
      cast(LongType, IntegerType),
      cast(DoubleType, LongType),
      cast(StringType, DateType),
      Coalesce(Seq(Literal(0), i)),
      Coalesce(Seq(i, column(IntegerType)))
    )
    refused.foreach(e => assert(MonotoneExpressions.of(e).isEmpty, e))
  }

  test("a bound with one end gives a range with one end") {
    Seq(cast(TimestampType, DateType, "Europe/Berlin"), Add(column(IntegerType), Literal(5))).foreach { e =>
      val (c, computed) = MonotoneExpressions.of(e).get
      val key = MonotoneExpressions.key(computed, c.dataType, "").get
      val (zero, last) = (Long.box(0), Long.box(domain(c.dataType).asInstanceOf[LongDomain].greatest))
      val end = Some(End(Long.box(18262L), inclusive = true))
      val atLeast = key.inverse(ValueFilter.range(domain(e.dataType), end, None, nulls = false))
      val atMost = key.inverse(ValueFilter.range(domain(e.dataType), None, end, nulls = false))
      assert(!atLeast.passes(zero) && atLeast.passes(last), s"$e: $atLeast")
      assert(atMost.passes(zero) && !atMost.passes(last), s"$e: $atMost")
    }
  }

  test("one day of a fixed zone is exactly one day") {
    val (c, computed) = MonotoneExpressions.of(cast(TimestampType, DateType)).get
    val day = Some(End(Long.box(18262L), inclusive = true))
    val f = MonotoneExpressions
      .key(computed, c.dataType, "")
      .get
      .inverse(ValueFilter.range(domain(DateType), day, day, nulls = false))
    assert(
      f.expression("ts") == "TIMESTAMP'2020-01-01 00:00:00Z' <= ts <= TIMESTAMP'2020-01-01 23:59:59.999999Z'"
    )
  }
}
