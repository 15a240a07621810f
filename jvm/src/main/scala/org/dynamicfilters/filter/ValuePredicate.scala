package org.dynamicfilters.filter

import java.util.function.LongPredicate

/** Tests single non-null values, in the form that Spark's expressions have them. Used by `DynamicFilterPredicate`. */
final class ValuePredicate(domain: KeyDomain, filter: ValueFilter) {
  private val longTest: LongPredicate = domain match {
    case _: LongDomain => filter.longTest
    case _: ObjectDomain => null
  }

  /** Tests a boolean (0, 1), integer, date, timestamp, time or interval. */
  def testLong(code: Long): Boolean = longTest.test(code)

  /** Tests a value of any type. */
  def testObject(value: AnyRef): Boolean = domain match {
    case d: LongDomain => longTest.test(d.fromInternal(value).asInstanceOf[java.lang.Long])
    case _ => filter.passesObject(value)
  }
}
