package org.dynamicfilters.exchange

import java.util.concurrent.atomic.LongAdder

/** Counters of messages and filters between processes, shown by `dynamic_filter_counters()`. */
object ExchangeCounter extends Enumeration {

  val sent, sentBytes, received, receivedBytes = Value

  /** Messages and filters that were not sent because they were too long, counted at each attempt. */
  val notSentTooLong = Value

  /** Work that was dropped because too much was waiting already. */
  val droppedOverload = Value

  /** Messages that could not be sent, or had no receiver. */
  val sendFailed = Value

  val refusedTooLong, refusedOtherVersion, refusedMalformed = Value

  /** Messages about an ended execution, or an unknown filter. */
  val refusedUnknown = Value

  /** Contributions of an attempt that came after those of a newer attempt of the partition. */
  val superseded = Value

  /** Bounds that were tighter than the receiver's, and those that were not. */
  val boundsAdopted, boundsNotTighter = Value

  /** Filters that could not be decoded. */
  val undecodable = Value

  /** Filters that were not sent, because they were complete after their scans had ended. */
  val withheldLate = Value

  /** Requests for snapshots that the driver did not answer in time, and requests that were left out after that. */
  val snapshotsUnanswered, snapshotsUnasked = Value

  /** Work that failed with an exception. */
  val failures = Value
}

/** Values of the counters. Thread-safe. */
final class ExchangeCounters {
  private val counts = Array.fill(ExchangeCounter.maxId)(new LongAdder)

  def add(c: ExchangeCounter.Value, n: Long = 1): Unit = counts(c.id).add(n)

  /** Counts a message that was sent. */
  def addSent(message: Array[Byte]): Unit = {
    add(ExchangeCounter.sent)
    add(ExchangeCounter.sentBytes, message.length.toLong)
  }
  def apply(c: ExchangeCounter.Value): Long = counts(c.id).sum
  def all: Seq[(ExchangeCounter.Value, Long)] = ExchangeCounter.values.toSeq.map(c => c -> apply(c))
}

object ExchangeCounters {

  /** The counters of this process. */
  val instance = new ExchangeCounters
}
