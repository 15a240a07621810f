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

  /** Pairs up the keys of a join; takes `<=>` together again, which Spark splits into two pairs of computed keys
    * (`ExtractEquiJoinKeys`).
    */
  def of(probe: Seq[Expression], build: Seq[Expression]): Seq[JoinKey] =
    // Spark normalizes floating point keys after it has split the pair, so around the coalesce.
    probe.map(normalized).zip(build.map(normalized)).flatMap {
      case (_: IsNull, _: IsNull) => None
      case (Coalesce(Seq(p, _: Literal)), Coalesce(Seq(b, _: Literal)))
          if hasNullTest(probe, p) && hasNullTest(build, b) =>
        Some(JoinKey(plain(p), plain(b), nullsMatch = true))
      case (p, b) => Some(JoinKey(plain(p), plain(b), nullsMatch = false))
    }

  private def hasNullTest(keys: Seq[Expression], e: Expression): Boolean = keys.exists {
    case IsNull(x) => x.semanticEquals(e)
    case _ => false
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
    case other => Left(s"the join key is computed: ${other.sql}")
  }
}
