package org.dynamicfilters.scan

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, GenericInternalRow}
import org.apache.spark.sql.types.DataType
import org.dynamicfilters.filter.{KeyDomain, LongDomain, MonotoneInverse, ValueFilter}

/** A filter's key that is derived from one column of a scan: a field of it, or what a producer computes from it or from
  * a field. It turns filters of the key into filters of the column or field. It is sent with the scan's tasks.
  *
  * @param field the field, if the column is a struct
  * @param expression computes the key from `BoundReference(0)`, which stands for the column or field
  * @param column type of the column or field
  * @param slack see [[MonotoneInverse]]
  * @param falls whether the key falls while the column rises
  */
final class DerivedKey(
    val field: Option[NestedField],
    private val expression: Expression,
    column: DataType,
    key: DataType,
    slack: Long,
    val falls: Boolean,
    val text: String
) extends Serializable {

  @transient private lazy val computed: MonotoneInverse = {
    val (from, to) = (new LongDomain(column), KeyDomain.known(key))
    def keyOf(value: Any): AnyRef = to.fromInternal(expression.eval(new GenericInternalRow(Array[Any](value))))
    // ANSI arithmetic fails at the ends of its type.
    def value(code: Long): Option[AnyRef] = Try(keyOf(from.toInternal(Long.box(code)))).toOption.flatMap(Option(_))
    new MonotoneInverse(from, to, slack, falls, Try(keyOf(null)).toOption, value)
  }

  // Whether the key is the field itself.
  private def isPlain: Boolean = expression.isInstanceOf[BoundReference]

  def isValid: Boolean = isPlain || computed.isValid

  /** The filter of the column for a filter of the key. */
  def inverse(filter: ValueFilter): ValueFilter =
    if (isPlain) filter.convert(KeyDomain.known(column)) else computed.inverse(filter)

  override def equals(other: Any): Boolean = other match {
    case that: DerivedKey => that.field == field && that.expression.canonicalized == expression.canonicalized
    case _ => false
  }
  override def hashCode: Int = expression.canonicalized.hashCode
  override def toString: String = text
}
