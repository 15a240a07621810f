package org.dynamicfilters.scan

import org.apache.spark.sql.types.{DoubleType, FloatType}
import org.dynamicfilters.filter.{KeyDomain, LongDomain, ValueFilter}

/** NaN, Spark's greatest floating point value. Statistics leave it out, and sources may order it differently. */
private[scan] object NaN {

  /** Whether a stored or internal value is NaN. */
  def is(value: Any): Boolean = value match {
    case n: Number => n.doubleValue.isNaN
    case _ => false
  }

  def passes(filter: ValueFilter, domain: KeyDomain): Boolean = (domain.dataType, domain) match {
    case (FloatType | DoubleType, d: LongDomain) => filter.passes(Long.box(d.greatest))
    case _ => false
  }
}
