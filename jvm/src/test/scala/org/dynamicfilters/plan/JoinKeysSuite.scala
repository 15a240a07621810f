package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical.{Join, JoinHint, LocalRelation}
import org.apache.spark.sql.types._
import org.dynamicfilters.reasons.Reasons
import org.scalatest.funsuite.AnyFunSuite

/** Which pairs of join keys are `<=>`: those that Spark makes of it, and nothing that looks like them. */
class JoinKeysSuite extends AnyFunSuite with SparkTests {
  private def column(name: String, t: DataType = IntegerType) = AttributeReference(name, t)()
  private val (a, b, c, d) = (column("a"), column("b"), column("c"), column("d"))
  private def or(e: Expression, default: Any = 0): Expression = Coalesce(Seq(e, Literal(default)))
  private def of(pairs: (Expression, Expression)*): Seq[JoinKey] = JoinKeys.pairs(pairs.map(_._1), pairs.map(_._2))
  private def isComputed(keys: Seq[JoinKey]): Boolean =
    keys.forall(k => !k.nullsMatch && !k.probe.isInstanceOf[Attribute])

  test("the keys that Spark makes of <=> are taken together again, for every type") {
    val types = Seq(
      BooleanType,
      ByteType,
      ShortType,
      IntegerType,
      LongType,
      FloatType,
      DoubleType,
      StringType,
      BinaryType,
      DateType,
      TimestampType,
      TimestampNTZType,
      DecimalType(10, 2),
      DecimalType(30, 2),
      DayTimeIntervalType(),
      YearMonthIntervalType()
    )
    types.foreach { t =>
      val (l, r) = (column("l", t), column("r", t))
      val (x, y) = (column("x"), column("y"))
      Seq(EqualNullSafe(l, r), EqualNullSafe(r, l)).foreach { nullSafe =>
        val condition = Some(And(EqualTo(x, y), nullSafe))
        val join = Join(LocalRelation(l, x), LocalRelation(r, y), Inner, condition, JoinHint.NONE)
        val (_, left, right, _, _, _, _, _) = ExtractEquiJoinKeys.unapply(join).get
        val expected = Set(JoinKey(x, y, nullsMatch = false), JoinKey(l, r, nullsMatch = true))
        assert(JoinKeys.pairs(left, right).toSet == expected, t)
        assert(JoinKeys.pairs(left.reverse, right.reverse).toSet == expected, t)
        def normalize(e: Expression) = e.dataType match {
          case FloatType | DoubleType => KnownFloatingPointNormalized(NormalizeNaNAndZero(e))
          case _ => e
        }
        assert(JoinKeys.pairs(left.map(normalize), right.map(normalize)).toSet == expected, t)
      }
    }
  }

  test("several <=> keep their sides") {
    val keys = of(or(a) -> or(b), IsNull(a) -> IsNull(b), or(a) -> or(c), IsNull(a) -> IsNull(c))
    assert(keys == Seq(JoinKey(a, b, nullsMatch = true), JoinKey(a, c, nullsMatch = true)))
  }

  test("tests of other columns at other positions do not make a pair one") {
    assert(isComputed(of(or(a) -> or(b), IsNull(a) -> IsNull(c), IsNull(d) -> IsNull(b))))
    assert(isComputed(of(or(a) -> or(b), IsNull(a) -> IsNull(c))))
    assert(isComputed(of(or(a) -> or(b), IsNull(d) -> IsNull(b))))
    assert(isComputed(of(or(a) -> or(b))))
    assert(isComputed(of(IsNull(a) -> IsNull(b))))
    assert(isComputed(of(or(a) -> or(b), IsNull(a) -> b, a -> IsNull(b)).take(1)))
  }

  test("other defaults than Spark's do not make a pair one") {
    Seq(0 -> 1, 1 -> 0, 1 -> 1).foreach { case (x, y) =>
      assert(isComputed(of(or(a, x) -> or(b, y), IsNull(a) -> IsNull(b))), (x, y))
    }
    val nothing = Literal(null, IntegerType)
    assert(isComputed(of(Coalesce(Seq(a, nothing)) -> Coalesce(Seq(b, nothing)), IsNull(a) -> IsNull(b))))
    assert(isComputed(of(Coalesce(Seq(a, c, Literal(0))) -> or(b), IsNull(a) -> IsNull(b))))
  }

  test("a build key that calls a function of a user makes no filter") {
    spark.udf.register("twice", (x: Long) => 2 * x)
    spark.read.parquet(write(spark.range(0, 4000).toDF("k"))).createOrReplaceTempView("p")
    spark.read.parquet(write(spark.range(100, 140).toDF("j"))).createOrReplaceTempView("b")
    checkSame(spark.sql("SELECT /*+ BROADCAST(b) */ k FROM p JOIN b ON k = twice(j) ORDER BY k"))
    assert(seen().reasons.contains(Reasons.KeyCallsFunction.text))
  }
}
