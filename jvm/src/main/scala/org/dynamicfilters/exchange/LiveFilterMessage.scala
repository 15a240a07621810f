package org.dynamicfilters.exchange

import scala.util.control.NonFatal

import org.dynamicfilters.filter.{FilterCodec, ValueFilter}
import org.dynamicfilters.state.FilterName

/** A filter's contents as a message, with what is too large for it beside it. */
private[exchange] object LiveFilterMessage {

  /** Larger filters go as a Spark broadcast: each executor fetches it once, from whoever has it. */
  private val InlineBytes: Int = 1 << 20

  /** @param encoded
    *   see `FilterCodec`
    */
  def apply(
      executionId: Long,
      name: FilterName,
      encoded: Array[Byte],
      payload: Array[Byte] => Payload,
      counters: ExchangeCounters
  ): (Array[Byte], Option[Payload]) = {
    def message(inside: Option[Array[Byte]]) = MessageCodec.encode(Message.JoinFilter(executionId, name, inside))
    if (encoded.length <= InlineBytes) (message(Some(encoded)), None)
    else {
      counters.add(ExchangeCounter.broadcasts)
      (message(None), Some(payload(encoded)))
    }
  }

  /** The contents; None, which is counted, if there are none. */
  def read(
      m: Message.JoinFilter,
      payload: Option[() => Array[Byte]],
      counters: ExchangeCounters
  ): Option[ValueFilter] = {
    // A broadcast is gone when its execution has ended; an executor that holds it may be lost.
    def fetched =
      try payload.map(_())
      catch { case NonFatal(_) => counters.add(ExchangeCounter.payloadsGone); None }
    if (m.encoded.isEmpty && payload.isEmpty) counters.add(ExchangeCounter.refusedMalformed)
    m.encoded.orElse(fetched).flatMap { encoded =>
      val read = FilterCodec.decode(encoded).toOption
      if (read.isEmpty) counters.add(ExchangeCounter.undecodable)
      read
    }
  }
}
