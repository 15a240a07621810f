package org.dynamicfilters.state

/** What learns which rows can still matter; by these names reports show it. */
object Producer extends Enumeration {
  val topk, join, aggregate, user = Value
}
