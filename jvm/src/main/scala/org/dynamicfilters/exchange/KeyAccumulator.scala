package org.dynamicfilters.exchange

import org.apache.spark.util.AccumulatorV2

/** The keys of one partition of a build side, encoded. */
final case class KeyContribution(partition: Int, encoded: Array[Byte], outgrown: Boolean)

/** Where the driver leaves what a build side's partitions report. */
trait KeyOffers {

  /** Takes a partition's keys; what it reported before is replaced. On the scheduler's thread: it only stores.
    *
    * @param outgrown
    *   whether it found more keys than it may collect: whoever waits is better off without the filter
    */
  def offer(partition: Int, encoded: Array[Byte], outgrown: Boolean): Unit
}

/** Carries a build side's keys to the driver with the results of its tasks.
  *
  * An accumulator rather than a message: it comes from successful attempts only, and it has come before the exchange is
  * complete. Its bytes count as part of task results, so they are bounded, see [[KeyAccumulator.budget]].
  */
final class KeyAccumulator(@transient private val state: KeyOffers)
    extends AccumulatorV2[KeyContribution, Seq[KeyContribution]] {
  private var contributions = Vector.empty[KeyContribution]

  override def isZero: Boolean = contributions.isEmpty
  override def copy(): KeyAccumulator = {
    val c = new KeyAccumulator(state)
    c.contributions = contributions
    c
  }
  // What a task gets: without the driver's state.
  override def copyAndReset(): KeyAccumulator = new KeyAccumulator(null)
  override def reset(): Unit = contributions = Vector.empty
  override def add(c: KeyContribution): Unit = contributions :+= c
  override def merge(other: AccumulatorV2[KeyContribution, Seq[KeyContribution]]): Unit = other match {
    case o: KeyAccumulator =>
      if (state == null) contributions ++= o.contributions
      else o.contributions.foreach(c => state.offer(c.partition, c.encoded, c.outgrown))
    case _ =>
  }
  override def value: Seq[KeyContribution] = contributions
}

object KeyAccumulator {

  /** Bytes that all partitions together may send: a filter's own limit, and a small part of what Spark lets results be, so
    * that a filter can never be what makes a job fail.
    *
    * @param maxResultSize
    *   `spark.driver.maxResultSize` in bytes, 0 for no limit
    */
  def budget(maxFilterBytes: Long, maxResultSize: Long): Long =
    if (maxResultSize <= 0) maxFilterBytes else math.min(maxFilterBytes, maxResultSize / 16)
}
