package org.dynamicfilters.operators

import org.apache.spark.sql.connector.expressions.Expression
import org.apache.spark.sql.connector.expressions.filter.{AlwaysFalse, And, Predicate}
import org.apache.spark.sql.execution.dynamicfilters.ExpressionAccess
import org.dynamicfilters.filter.{End, KeyDomain, LongSet, ObjectValues, ValueFilter}

/** Filters as predicates of DataSource V2. */
object V2Predicates {

  /** Above it a set of values goes to the source as its range. */
  private val MostValues = 10000L

  /** @return
    *   None where no predicate says less than everything. The predicate may let pass more than the filter
    */
  def of(column: String, filter: ValueFilter): Option[Predicate] = {
    val reference = ExpressionAccess.column(column)
    filter match {
      case ValueFilter.Nothing => Some(new AlwaysFalse)
      case ValueFilter.NullsOnly(_) => Some(new Predicate("IS_NULL", Array(reference)))
      case r: ValueFilter.Range if !r.nulls => range(reference, r)
      case ValueFilter.Members(r, keys) if !r.nulls =>
        val values: Option[Seq[AnyRef]] = keys match {
          case l: LongSet if l.size <= MostValues => Some(l.toArray.toSeq.map(Long.box))
          case o: ObjectValues if o.size <= MostValues => Some(o.sorted.toSeq)
          case _ => None
        }
        values match {
          case Some(vs) =>
            val literals = vs.filter(filter.passes).map(literal(r.domain, _))
            Some(new Predicate("IN", (reference +: literals).toArray[Expression]))
          case None => range(reference, r)
        }
      case ValueFilter.Both(left, right) =>
        (of(column, left), of(column, right)) match {
          case (Some(a), Some(b)) => Some(new And(a, b))
          case (a, b) => a.orElse(b)
        }
      case _ => None
    }
  }

  private def range(reference: Expression, r: ValueFilter.Range): Option[Predicate] = {
    def compared(end: Option[End], inclusive: String, exclusive: String) =
      end.map(e => new Predicate(if (e.inclusive) inclusive else exclusive, Array(reference, literal(r.domain, e.key))))
    (compared(r.lower, ">=", ">"), compared(r.upper, "<=", "<")) match {
      case (Some(a), Some(b)) => Some(new And(a, b))
      case (a, b) => a.orElse(b)
    }
  }

  private def literal(domain: KeyDomain, key: AnyRef): Expression =
    ExpressionAccess.literal(domain.toInternal(key), domain.dataType)
}
