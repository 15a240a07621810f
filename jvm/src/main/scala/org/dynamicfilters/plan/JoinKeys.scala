package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{
  AttributeReference,
  Cast,
  Coalesce,
  Expression,
  IsNull,
  KnownFloatingPointNormalized,
  Literal
}
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.types._

/** One pair of keys of an equi-join.
  *
  * @param probe
  *   key of the side that is filtered
  * @param build
  *   key of the side that the filter is made of
  * @param nullsMatch
  *   whether NULL equals NULL (`<=>`)
  */
final case class JoinKey(probe: Expression, build: Expression, nullsMatch: Boolean) {

  /** The same for the same join after it was planned anew: attribute ids stay. */
  def origin: String = s"$probe=$build"
}

object JoinKeys {

  /** Pairs up the keys of a join; takes `<=>` together again, which Spark splits into two pairs of computed keys, coalesce(x,
    * default) and isnull(x) (`ExtractEquiJoinKeys`).
    *
    * Only such two pairs are one: those of the same x on both sides, each at one position, with Spark's default. What looks
    * like a part of them remains what it is, a pair of computed keys.
    */
  def of(probe: Seq[Expression], build: Seq[Expression]): Seq[JoinKey] = {
    // Spark normalizes floating point keys after it has split the pair, so around the coalesce.
    val pairs = probe.map(normalized).zip(build.map(normalized))
    val tests = pairs.collect { case (IsNull(p), IsNull(b)) => (p, b) }
    val values = pairs.collect { case (OrDefault(p), OrDefault(b)) => (p, b) }
    pairs.flatMap {
      case (OrDefault(p), OrDefault(b)) if has(tests, p, b) => Some(JoinKey(plain(p), plain(b), nullsMatch = true))
      case (IsNull(p), IsNull(b)) if has(values, p, b) => None
      case (p, b) => Some(JoinKey(plain(p), plain(b), nullsMatch = false))
    }
  }

  private def has(pairs: Seq[(Expression, Expression)], p: Expression, b: Expression): Boolean =
    pairs.exists { case (x, y) => x.semanticEquals(p) && y.semanticEquals(b) }

  /** `coalesce(x, default)`, as Spark makes it of x. */
  private object OrDefault {
    def unapply(e: Expression): Option[Expression] = e match {
      case Coalesce(Seq(x, default: Literal)) if default == Literal.default(x.dataType) => Some(x)
      case _ => None
    }
  }

  /** Without what does not change which keys are equal: casts to a wider integer, and the normalization of floating point
    * keys, which filters do by themselves.
    */
  def plain(e: Expression): Expression = e match {
    case c: Cast if widens(c.child.dataType, c.dataType) => plain(c.child)
    case n: KnownFloatingPointNormalized if normalized(n) ne n => plain(normalized(n))
    case other => other
  }

  private def normalized(e: Expression): Expression = e match {
    case KnownFloatingPointNormalized(NormalizeNaNAndZero(x)) => x
    case other => other
  }

  private val widths: Seq[DataType] = Seq(ByteType, ShortType, IntegerType, LongType)
  private def widens(from: DataType, to: DataType): Boolean =
    widths.contains(from) && widths.indexOf(to) >= widths.indexOf(from)

  /** Whether a filter of build keys can be used on a probe column. */
  def comparable(build: DataType, probe: DataType): Boolean =
    build == probe || (widths.contains(build) && widths.contains(probe))

  /** The probe key as a column. */
  def column(key: JoinKey): Either[String, AttributeReference] = key.probe match {
    case a: AttributeReference => Right(a)
    case other => Left(s"the join key is computed: ${ExpressionText.of(other)}")
  }
}
