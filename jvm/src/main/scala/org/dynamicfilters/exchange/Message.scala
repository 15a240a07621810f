package org.dynamicfilters.exchange

import org.dynamicfilters.state.{FilterName, ReadPlace}

/** A message about filters between an executor and the driver while a query runs.
  *
  * Keys are in encoded form, because only the receiver's filter knows their type and can check them.
  */
sealed trait Message {

  /** Spark's SQL execution; -1 where there is none. */
  def executionId: Long
  final def execution: Option[Long] = Option.when(executionId >= 0)(executionId)
}

object Message {

  /** To the driver: the best keys of partitions of a TopK's input. Replaces earlier contributions of the partitions. */
  final case class Contributions(executionId: Long, filter: FilterName, parts: Seq[WireContribution]) extends Message

  /** To the driver: the executor asks for the current and all later generations of a filter. */
  final case class Subscribe(executionId: Long, filter: FilterName) extends Message

  /** To the driver: the executor holds something of the execution, and asks to be told of its end. */
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

  /** To executors, also as the answer to a [[FilterRequest]]: the complete filter of a join, or a generation of a user filter.
    *
    * @param encoded
    *   see `FilterCodec`; None if it comes as a broadcast beside the message
    */
  final case class FilterContents(executionId: Long, filter: FilterName, encoded: Option[Array[Byte]]) extends Message

  /** To the driver: asks for the snapshots of a partition. The answer is a [[SnapshotReply]].
    *
    * @param isFirst
    *   whether there was no attempt of the partition before
    * @param newFrom
    *   None for an attempt that starts; else the place from which on it could use newer filters
    */
  final case class SnapshotRequest(
      executionId: Long,
      table: Long,
      partition: Int,
      attempt: Long,
      isFirst: Boolean,
      newFrom: Option[ReadPlace]
  ) extends Message

  /** @param schedule
    *   see `SnapshotCodec`
    */
  final case class SnapshotReply(executionId: Long, table: Long, schedule: Array[Byte]) extends Message

  /** To the driver: asks for the contents of a filter that a snapshot names. The answer is a [[FilterContents]]. */
  final case class FilterRequest(executionId: Long, table: Long, filter: FilterName) extends Message

  /** To executors: the execution has ended, with or without success. */
  final case class Ended(executionId: Long) extends Message
}
