package org.dynamicfilters.state

/** A filter within an execution.
  *
  * @param run
  *   of its producer, see [[TopKRef.nextRun]]; 0 for a join. Of a user's filter its generation, 0 where that is not known
  */
final case class FilterName(filterId: Long, run: Long)
