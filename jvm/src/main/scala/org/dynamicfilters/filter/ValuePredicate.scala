package org.dynamicfilters.filter

import java.util.function.LongPredicate

import org.apache.spark.sql.types._

/** Tests single non-null values, in the form that Spark's expressions have them. Used by `DynamicFilterPredicate`. */
final class ValuePredicate(domain: KeyDomain, filter: ValueFilter) {
  import ValuePredicate._

  private val longTest: LongPredicate = domain match {
    case _: LongDomain => compile(filter)
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
    case _ => passesObject(filter, value)
  }

  private def passesObject(f: ValueFilter, value: AnyRef): Boolean = f match {
    case ValueFilter.All => true
    case ValueFilter.Nothing | ValueFilter.NullsOnly(_) => false
    case r: ValueFilter.Range => r.passesObject(value)
    case m: ValueFilter.Members => m.passesObject(value)
    case ValueFilter.Both(a, b) => passesObject(a, value) && passesObject(b, value)
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

  private def compile(f: ValueFilter): LongPredicate = f match {
    case ValueFilter.All => _ => true
    case ValueFilter.Nothing | ValueFilter.NullsOnly(_) => _ => false
    case r: ValueFilter.Range => r.passesLong(_)
    case ValueFilter.Members(range, keys) =>
      keys match {
        case s: LongSet =>
          val lookup = s.lookup
          code => range.passesLong(code) && lookup.containsLong(code)
        case b: Bloom =>
          val bits = b.bits
          code => range.passesLong(code) && bits.mightContainLong(code)
        case _: ObjectValues => throw new IllegalArgumentException("a set of objects in a filter of numbers")
      }
    case ValueFilter.Both(a, b) =>
      val (x, y) = (compile(a), compile(b))
      code => x.test(code) && y.test(code)
  }
}
