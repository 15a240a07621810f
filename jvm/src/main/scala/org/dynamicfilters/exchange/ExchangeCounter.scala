package org.dynamicfilters.exchange

import java.util.concurrent.atomic.LongAdder

/** What becomes of messages and filters between processes; shown by `dynamic_filter_counters()`. */
object ExchangeCounter extends Enumeration {

  val sent, sentBytes, received, receivedBytes = Value

  /** Not sent: longer than a message may be. */
  val notSentTooLong = Value

  /** Not sent: more work is waiting already than a side takes on. */
  val droppedOverload = Value

  /** Sending failed, or there is nobody to send to. */
  val sendFailed = Value

  val refusedTooLong, refusedOtherVersion, refusedMalformed = Value

  /** Of an execution that has ended, or of a filter that nobody here knows. */
  val refusedUnknown = Value

  /** Keys that are none of the filter's type, not in order, or too many. */
  val refusedKeys = Value

  /** Contributions that an attempt sent after a newer one of its partition. */
  val superseded = Value

  /** Bounds that were tighter than what the receiver knew, and those that were not. */
  val boundsAdopted, boundsNotTighter = Value

  /** A filter that came and could not be decoded. */
  val undecodable = Value

  /** Broadcasts that could not be fetched any more. */
  val payloadsGone = Value

  /** Filters that went as Spark broadcasts. */
  val broadcasts = Value

  /** Filters that were not sent: too many bytes for so many executors; too late, since nobody reads any more. */
  val withheldBytes, withheldLate = Value

  /** Snapshots of filters that the driver did not give in time, and those that were not asked for after that. */
  val snapshotsUnanswered, snapshotsUnasked = Value

  /** Work that ended in an exception. */
  val failures = Value
}

/** Counts of one process. Thread-safe. */
final class ExchangeCounters {
  private val counts = Array.fill(ExchangeCounter.maxId)(new LongAdder)

  def add(c: ExchangeCounter.Value, n: Long = 1): Unit = counts(c.id).add(n)
  def apply(c: ExchangeCounter.Value): Long = counts(c.id).sum
  def all: Seq[(ExchangeCounter.Value, Long)] = ExchangeCounter.values.toSeq.map(c => c -> apply(c))

  def refused(r: MessageCodec.Refusal): Unit = add(r match {
    case MessageCodec.Refusal.TooLong => ExchangeCounter.refusedTooLong
    case MessageCodec.Refusal.OtherVersion => ExchangeCounter.refusedOtherVersion
    case MessageCodec.Refusal.Malformed => ExchangeCounter.refusedMalformed
  })
}

object ExchangeCounters {

  /** Those of this process. */
  val instance = new ExchangeCounters
}
