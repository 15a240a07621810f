package org.dynamicfilters.scan

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.{Expression, GenericInternalRow}
import org.apache.spark.sql.types.DataType
import org.dynamicfilters.filter.{KeyDomain, LongDomain, MonotoneInverse, ValueFilter}

/** A key that a join, a TopK or a comparison with a subquery's value computes from one column of a scan. It is sent with the
  * scan's tasks.
  *
  * @param expression of the column, which is `BoundReference(0)`
  * @param slack see [[MonotoneInverse]]
  * @param falls whether the key falls while the column rises
  */
final class ComputedKey(
    private val expression: Expression,
    column: DataType,
    key: DataType,
    slack: Long,
    val falls: Boolean,
    val text: String
) extends Serializable {

  @transient private lazy val computed: MonotoneInverse = {
    val (from, to) = (new LongDomain(column), KeyDomain.known(key))
    def value(code: Long): Option[AnyRef] =
      // ANSI arithmetic fails at the ends of its type.
      Try(expression.eval(new GenericInternalRow(Array[Any](from.toInternal(Long.box(code)))))).toOption
        .flatMap(Option(_))
        .map(to.fromInternal)
    new MonotoneInverse(from, to, slack, falls, value)
  }

  def isValid: Boolean = computed.isValid

  /** The filter of the column for a filter of the key. */
  def inverse(filter: ValueFilter): ValueFilter = computed.inverse(filter)

  override def equals(other: Any): Boolean = other match {
    case that: ComputedKey => that.expression.canonicalized == expression.canonicalized
    case _ => false
  }
  override def hashCode: Int = expression.canonicalized.hashCode
  override def toString: String = text
}
