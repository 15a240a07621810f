package org.dynamicfilters.filter

import java.util.function.LongPredicate

import org.apache.spark.sql.types._

/** Tests single non-null values, in the form that Spark's expressions have them. Used by `DynamicFilterPredicate`. */
final class ValuePredicate(domain: KeyDomain, filter: ValueFilter) {
  private val longTest: LongPredicate = domain match {
    case _: LongDomain => filter.longTest
    case _: ObjectDomain => null
  }
  private val isFloat = domain.dataType == FloatType

  /** Tests a boolean (0, 1), integer, date, timestamp, time or interval. */
  def testLong(code: Long): Boolean = longTest.test(code)

  /** Tests a value of a floating type. */
  def testDouble(value: Double): Boolean =
    longTest.test(if (isFloat) SortableBits.ofFloat(value.toFloat).toLong else SortableBits.ofDouble(value))

  /** Tests a value of any type. */
  def testObject(value: AnyRef): Boolean = domain match {
    case d: LongDomain => longTest.test(d.fromInternal(value).asInstanceOf[java.lang.Long])
    case _ => filter.passesObject(value)
  }
}

object ValuePredicate {

  /** The Java type of a value in generated code. */
  sealed trait Kind
  object Kind {
    case object Booleans extends Kind
    case object Longs extends Kind
    case object Doubles extends Kind
    case object Objects extends Kind
  }

  def kindOf(dt: DataType): Kind = dt match {
    case BooleanType => Kind.Booleans
    case FloatType | DoubleType => Kind.Doubles
    case _: DecimalType => Kind.Objects
    case t if LongDomain.kindOf(t).isDefined => Kind.Longs
    case _ => Kind.Objects
  }
}
