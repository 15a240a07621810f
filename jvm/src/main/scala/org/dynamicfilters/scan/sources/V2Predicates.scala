package org.dynamicfilters.scan.sources

import org.apache.spark.sql.connector.expressions.Expression
import org.apache.spark.sql.connector.expressions.filter.{AlwaysFalse, And, Predicate}
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.filter.{End, KeyDomain, LongSet, ObjectValues, ValueFilter}
import org.dynamicfilters.scan.NaN

/** Turns filters into DataSource V2 predicates. */
object V2Predicates {

  /** @param inSparksOrder whether the source is known to order the column's values as Spark does. It does not for some
    *   STRING columns: UUIDs in Iceberg, text with a case-insensitive collation
    * @param mostValues a larger set of values becomes its range
    * @return None if only a predicate that is always true would be right. The predicate may pass more rows than the
    *   filter
    */
  def of(column: String, filter: ValueFilter, inSparksOrder: Boolean, mostValues: Long): Option[Predicate] = {
    val reference = SparkAccess.column(column)
    def range(r: ValueFilter.Range) =
      if (inSparksOrder) V2Predicates.range(reference, r) else None
    filter match {
      case ValueFilter.Nothing => Some(new AlwaysFalse)
      case ValueFilter.NullsOnly(_) => Some(new Predicate("IS_NULL", Array(reference)))
      case r: ValueFilter.Range if !r.nulls => only(r).flatMap(k => in(reference, r.domain, Seq(k))).orElse(range(r))
      case ValueFilter.Members(r, keys) if !r.nulls =>
        val values: Option[Seq[AnyRef]] = keys match {
          case l: LongSet if l.size <= mostValues => Some(l.toArray.toSeq.map(Long.box))
          case o: ObjectValues if o.size <= mostValues => Some(o.sorted.toSeq)
          case _ => None
        }
        values.flatMap(vs => in(reference, r.domain, vs.filter(filter.passes))).orElse(range(r))
      case ValueFilter.Both(left, right) =>
        Seq(left, right).map(of(column, _, inSparksOrder, mostValues)) match {
          case Seq(Some(a), Some(b)) => Some(new And(a, b))
          case sides => sides.flatten.headOption
        }
      case _ => None
    }
  }

  /** The only value that passes. */
  private def only(r: ValueFilter.Range): Option[AnyRef] = (r.lower, r.upper) match {
    case (Some(l), Some(u)) if l.inclusive && u.inclusive && r.domain.compare(l.key, u.key) == 0 => Some(l.key)
    case _ => None
  }

  private def in(reference: Expression, domain: KeyDomain, keys: Seq[AnyRef]): Option[Predicate] =
    // ORC's reader fails at a set without values.
    if (keys.isEmpty) Some(new AlwaysFalse)
    else
      Option.unless(keys.exists(k => isNaN(domain, k) || !KeyDomain.isText(domain.toInternal(k)))) {
        val literals = keys.flatMap(zeros(domain, _)).map(SparkAccess.literal(_, domain.dataType))
        new Predicate("IN", (reference +: literals).toArray[Expression])
      }

  private def range(reference: Expression, r: ValueFilter.Range): Option[Predicate] = {
    def compared(end: Option[End], inclusive: String, exclusive: String, of: Seq[Any] => Any) =
      end.filterNot(e => isNaN(r.domain, e.key) || !KeyDomain.isText(r.domain.toInternal(e.key))).map { e =>
        val value = SparkAccess.literal(of(zeros(r.domain, e.key)), r.domain.dataType)
        new Predicate(if (e.inclusive) inclusive else exclusive, Array(reference, value))
      }
    // A source may order NaN below all values. If NaN passes, the range has no lower end.
    val lower = r.lower.filterNot(_ => NaN.passes(r, r.domain))
    (compared(lower, ">=", ">", _.head), compared(r.upper, "<=", "<", _.last)) match {
      case (Some(a), Some(b)) => Some(new And(a, b))
      case (a, b) => a.orElse(b)
    }
  }

  /** The values of a key: one, or -0.0 and 0.0. They are equal in Spark, but a source may order -0.0 first. */
  private def zeros(domain: KeyDomain, key: AnyRef): Seq[Any] = domain.toInternal(key) match {
    case d: Double if d == 0.0 => Seq(-0.0, 0.0)
    case f: Float if f == 0.0f => Seq(-0.0f, 0.0f)
    case other => Seq(other)
  }

  /** Sources cannot compare with NaN. */
  private def isNaN(domain: KeyDomain, key: AnyRef): Boolean = NaN.is(domain.toInternal(key))
}
