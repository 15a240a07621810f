package org.dynamicfilters.exchange

/** A filter that is too large for a message: broadcast once for all who get it, and fetched by them. */
trait Payload {

  /** What is known of it on this side is dropped; who has not fetched it will not get it. */
  def release(): Unit
}
