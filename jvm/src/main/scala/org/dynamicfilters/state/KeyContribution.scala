package org.dynamicfilters.state

/** The keys of one partition of a build side, encoded. They go to the driver by [[ResultItems]].
  *
  * @param outgrown
  *   whether there were more keys than may be collected, or they were given up: whoever waits is better off without the filter
  */
final case class KeyContribution(partition: Int, encoded: Array[Byte], outgrown: Boolean)

object KeyContribution {

  /** Bytes that all partitions together may send: a filter's own limit, and a small part of what Spark lets results be, so
    * that a filter can never be what makes a job fail.
    *
    * @param maxResultSize
    *   `spark.driver.maxResultSize` in bytes, 0 for no limit
    */
  def budget(maxFilterBytes: Long, maxResultSize: Long): Long =
    if (maxResultSize <= 0) maxFilterBytes else math.min(maxFilterBytes, maxResultSize / 16)
}

/** Where the driver leaves what a build side's partitions report. */
trait KeyOffers {

  /** Takes a partition's keys, see [[KeyContribution]]; what it reported before is replaced. On the scheduler's thread: it
    * only stores.
    */
  def offer(partition: Int, encoded: Array[Byte], outgrown: Boolean): Unit
}
