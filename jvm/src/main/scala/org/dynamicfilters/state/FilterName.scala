package org.dynamicfilters.state

/** Identifies a filter within an execution.
  *
  * @param run
  *   for a TopK, its producer's run (see [[TopKRef.nextRun]]); for a user filter, its generation, 0 if unknown; 0 for a join
  */
final case class FilterName(filterId: Long, run: Long)
