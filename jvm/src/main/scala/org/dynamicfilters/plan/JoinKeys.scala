package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{
  AttributeReference, AttributeSet, Cast, Coalesce, Expression, IsNull, KnownFloatingPointNormalized, Literal
}
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.types._
import org.dynamicfilters.filter.{KeyDomain, LongDomain}
import org.dynamicfilters.operators.RangeKey
import org.dynamicfilters.reasons.{Reason, Reasons}

/** One pair of keys of an equi-join.
  *
  * @param nullsMatch whether NULL equals NULL (`<=>`)
  */
final case class JoinKey(probe: Expression, build: Expression, nullsMatch: Boolean) {

  /** As [[JoinKeys.column]], for the probe side. */
  def column: Either[Reason, (AttributeReference, Option[Expression])] = JoinKeys.column(probe, "the join key")

  /** The pair as text. Stays the same at re-planning, which keeps attribute ids. */
  def origin: String = s"$probe=$build"
}

object JoinKeys {

  /** Pairs up the keys of a join. Restores `<=>`, which Spark splits into two pairs of computed keys, coalesce(x, default) and
    * isnull(x) (`ExtractEquiJoinKeys`): two such pairs become one if they have the same x on both sides and Spark's default.
    */
  def pairs(probe: Seq[Expression], build: Seq[Expression]): Seq[JoinKey] = {
    // Spark normalizes floating point keys after the split, so the normalization is outside the coalesce.
    val pairs = probe.map(normalized).zip(build.map(normalized))
    val tests = pairs.collect { case (IsNull(p), IsNull(b)) => (p, b) }
    val values = pairs.collect { case (OrDefault(p), OrDefault(b)) => (p, b) }
    pairs.flatMap {
      case (OrDefault(p), OrDefault(b)) if has(tests, p, b) => Some(JoinKey(plain(p), plain(b), nullsMatch = true))
      case (IsNull(p), IsNull(b)) if has(values, p, b) => None
      case (p, b) => Some(JoinKey(plain(p), plain(b), nullsMatch = false))
    }
  }

  /** The keys of a join without equal keys. Each is an expression of the probe side, with all that the condition compares it with on
    * the build side. Only keys of types that are kept as longs. (Spark allows no random numbers in a join's condition.)
    */
  def ranges(condition: Option[Expression], probe: AttributeSet, build: AttributeSet): Seq[JoinKey] = {
    def isOf(side: AttributeSet)(e: Expression) = e.references.nonEmpty && e.references.subsetOf(side)
    val compared =
      condition.toSeq.flatMap(Conjuncts(_)).flatMap(Compared.of(_, isOf(probe), isOf(build)))
    val sides = compared.map(_.side).filter(s => KeyDomain.forType(s.dataType).exists(_.isInstanceOf[LongDomain]))
    sides.map(_.canonicalized).distinct.map { side =>
      val all = compared.filter(_.side.canonicalized == side)
      JoinKey(plain(all.head.side), RangeKey(all.map(_.operator), all.map(_.value)), nullsMatch = false)
    }
  }

  private def has(pairs: Seq[(Expression, Expression)], p: Expression, b: Expression): Boolean =
    pairs.exists { case (x, y) => x.semanticEquals(p) && y.semanticEquals(b) }

  /** Matches `coalesce(x, default)` as made by `ExtractEquiJoinKeys`. */
  private object OrDefault {
    def unapply(e: Expression): Option[Expression] = e match {
      case Coalesce(Seq(x, default: Literal)) if default == Literal.default(x.dataType) => Some(x)
      case _ => None
    }
  }

  /** The key without casts to wider integers and without the normalization of floating point keys: filters compare across
    * integer types, and normalize themselves.
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

  private def widens(from: DataType, to: DataType): Boolean = areIntegers(from, to) && Cast.canUpCast(from, to)
  private def areIntegers(a: DataType, b: DataType): Boolean = KeyDomain.isInteger(a) && KeyDomain.isInteger(b)

  /** Whether a filter of build keys can be used on a probe column. */
  def comparable(build: DataType, probe: DataType): Boolean =
    build == probe || areIntegers(build, probe)

  /** The column of a key, and how the key is computed from it, if it is (see [[MonotoneExpressions.of]]).
    *
    * @param what the key's role, for the reason
    */
  def column(key: Expression, what: String): Either[Reason, (AttributeReference, Option[Expression])] =
    plain(key) match {
      case a: AttributeReference => Right((a, None))
      case _ =>
        MonotoneExpressions.of(key) match {
          case Some((column, computed)) => Right((column, Some(computed)))
          case None => Left(Reasons.Computed(what, ExpressionText.withoutValues(key)))
        }
    }
}
