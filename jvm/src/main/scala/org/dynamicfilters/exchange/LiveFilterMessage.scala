package org.dynamicfilters.exchange

import org.dynamicfilters.state.FilterName

/** A filter for running scans as a message, with what is too large for it beside it. */
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
      peers: Peers,
      counters: ExchangeCounters
  ): (Array[Byte], Option[Payload]) = {
    def message(inside: Option[Array[Byte]]) = MessageCodec.encode(Message.JoinFilter(executionId, name, inside))
    if (encoded.length <= InlineBytes) (message(Some(encoded)), None)
    else {
      counters.add(ExchangeCounter.broadcasts)
      (message(None), Some(peers.payload(encoded)))
    }
  }
}
