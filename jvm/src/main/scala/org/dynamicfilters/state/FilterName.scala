package org.dynamicfilters.state

import org.dynamicfilters.filter.ValueFilter

/** Identifies a filter within an execution, or the contents that one generation of it has.
  *
  * @param run
  *   for a TopK, its producer's run (see [[TopKRef.nextRun]]); for a join's or a user's filter, the generation of its
  *   contents (see [[JoinState.named]]); 0 in a subscription, and for the range alone of a join's filter
  */
final case class FilterName(filterId: Long, run: Long)

/** A join's or a user's filter. Equal names are equal contents, in every process. */
final case class NamedFilter(name: FilterName, filter: ValueFilter)
