package org.dynamicfilters.exchange

/** A way to one other process. One-way: what is sent may arrive, once or not at all. */
trait Wire {

  /** Never blocks; an exception means that it was not sent. */
  def send(message: Array[Byte]): Unit
}

/** A filter that is too large for a message: broadcast once for all who get it, and fetched by them. */
trait Payload {

  /** What is known of it on this side is dropped; who has not fetched it will not get it. */
  def release(): Unit
}
