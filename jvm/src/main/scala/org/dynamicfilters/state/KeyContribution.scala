package org.dynamicfilters.state

/** The keys of one partition of a build side, encoded. They go to the driver by [[ResultItems]].
  *
  * @param outgrown
  *   whether there were more keys than may be collected, or they were given up: whoever waits is better off without the filter
  */
final case class KeyContribution(partition: Int, encoded: Array[Byte], outgrown: Boolean)

object KeyContribution {

  /** Bytes that all partitions together may send of one filter: all filters of an exchange have a small part of what Spark lets
    * results be. A broadcast's tasks have its rows in their results, and Spark fails a query whose results are too large: it
    * would be one that is within a hundredth of that without us. Of map tasks no result may be larger by itself.
    *
    * @param maxResultSize
    *   `spark.driver.maxResultSize` in bytes, 0 for no limit
    * @param filters
    *   that are collected above the same exchange, one or more
    */
  def budget(maxResultSize: Long, broadcast: Boolean, filters: Int): Long =
    if (maxResultSize <= 0) Long.MaxValue
    else maxResultSize / (if (broadcast) OfBroadcast else OfMapTasks) / filters

  private val OfBroadcast = 128
  private val OfMapTasks = 16
}

/** Where the driver leaves what a build side's partitions report. */
trait KeyOffers {

  /** Takes a partition's keys, see [[KeyContribution]]; what it reported before is replaced. On the scheduler's thread: it
    * only stores.
    */
  def offer(partition: Int, encoded: Array[Byte], outgrown: Boolean): Unit
}
