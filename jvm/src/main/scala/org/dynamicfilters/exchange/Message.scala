package org.dynamicfilters.exchange

import org.dynamicfilters.state.{FilterName, ReadPlace}

/** What executors and the driver tell each other of filters while a query runs.
  *
  * Keys are in the form that goes over the wire: only who knows a filter's type can make keys of them, and check them.
  */
sealed trait Message {

  /** Spark's SQL execution; -1 where there is none. */
  def executionId: Long
  final def execution: Option[Long] = Option.when(executionId >= 0)(executionId)
}

object Message {

  /** To the driver: the best keys of partitions of a TopK's input; what a partition sent before is replaced. */
  final case class Contributions(executionId: Long, filter: FilterName, parts: Seq[WireContribution]) extends Message

  /** To the driver: this executor wants to know what is known of a filter now, and what will be. */
  final case class Subscribe(executionId: Long, filter: FilterName) extends Message

  /** To the driver: this executor holds something of the execution, so it wants to know when that ends. */
  final case class Joined(executionId: Long) extends Message

  /** To executors: a TopK's bound for the whole cluster.
    *
    * @param key
    *   None for SQL NULL
    */
  final case class Bound(
      executionId: Long,
      filter: FilterName,
      generation: Long,
      key: Option[WireKey],
      partition: Int
  ) extends Message

  /** To executors, or as the answer to a [[FilterRequest]]: a join's filter, which is complete, or a generation of a user's.
    *
    * @param encoded
    *   see `FilterCodec`; None where it comes as a broadcast beside the message
    */
  final case class JoinFilter(executionId: Long, filter: FilterName, encoded: Option[Array[Byte]]) extends Message

  /** To the driver, which answers: with which filters is this partition computed?
    *
    * @param executionId
    *   -1 where there is none
    * @param isFirst
    *   whether there was no attempt of the partition before
    * @param newFrom
    *   None for an attempt that starts; else from which place on it could use newer filters
    */
  final case class SnapshotRequest(
      executionId: Long,
      table: Long,
      partition: Int,
      attempt: Long,
      isFirst: Boolean,
      newFrom: Option[ReadPlace]
  ) extends Message

  /** The answer.
    *
    * @param schedule
    *   see `SnapshotCodec`
    */
  final case class SnapshotReply(executionId: Long, table: Long, schedule: Array[Byte]) extends Message

  /** To the driver, which answers with a [[JoinFilter]]: the contents of a filter that a snapshot of the table names. */
  final case class FilterRequest(executionId: Long, table: Long, filter: FilterName) extends Message

  /** To executors: the execution has ended, however it did. */
  final case class Ended(executionId: Long) extends Message
}
