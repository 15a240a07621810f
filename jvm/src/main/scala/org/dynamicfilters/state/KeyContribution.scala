package org.dynamicfilters.state

/** The keys of one partition of a build side, encoded. They go to the driver by [[ResultItems]].
  *
  * @param outgrown
  *   whether there were too many keys, so that scans should not wait for the filter
  */
final case class KeyContribution(partition: Int, encoded: Array[Byte], outgrown: Boolean)

object KeyContribution {

  /** Bytes that all partitions together may send for one filter: all filters of an exchange share a small part of Spark's limit
    * for task results. The part is smaller for a broadcast, whose rows are in the results too: Spark fails a query above the
    * limit.
    *
    * @param maxResultSize
    *   `spark.driver.maxResultSize` in bytes, 0 for no limit
    * @param filters
    *   number of filters that are collected below the exchange, at least one
    */
  def budget(maxResultSize: Long, broadcast: Boolean, filters: Int): Long =
    if (maxResultSize <= 0) Long.MaxValue
    else maxResultSize / (if (broadcast) OfBroadcast else OfMapTasks) / filters

  private val OfBroadcast = 128
  private val OfMapTasks = 16
}

/** Receives the keys of a build side's partitions on the driver: [[JoinState]]. */
trait KeyOffers {

  /** Takes a partition's keys, see [[KeyContribution]]. Replaces an earlier report of the partition. Only stores, because Spark's
    * scheduler calls it.
    */
  def offer(partition: Int, encoded: Array[Byte], outgrown: Boolean): Unit
}
