package org.dynamicfilters.filter

/** The comparison operators of SQL, between a column on the left and a value on the right. */
object Comparison extends Enumeration {
  val Equal = Value("=")
  val NullSafeEqual = Value("<=>")
  val Less = Value("<")
  val LessOrEqual = Value("<=")
  val Greater = Value(">")
  val GreaterOrEqual = Value(">=")

  /** The rows for which the comparison is true.
    *
    * @param value a Catalyst value of the domain's type. If it is NULL, only `<=>` can be true
    */
  def filter(operator: Value, domain: KeyDomain, value: Any): ValueFilter =
    ofKey(operator, domain, domain.fromInternal(value))

  /** The same for a key of the domain; null for NULL. */
  def ofKey(operator: Value, domain: KeyDomain, key: AnyRef): ValueFilter = {
    def end(inclusive: Boolean) = Some(End(key, inclusive))
    def range(lower: Option[End], upper: Option[End]) = ValueFilter.range(domain, lower, upper, nulls = false)
    operator match {
      case NullSafeEqual if key == null => ValueFilter.NullsOnly(domain)
      case _ if key == null => ValueFilter.Nothing
      case Equal | NullSafeEqual => range(end(true), end(true))
      case Less => range(None, end(false))
      case LessOrEqual => range(None, end(true))
      case Greater => range(end(false), None)
      case GreaterOrEqual => range(end(true), None)
    }
  }
}
