package org.dynamicfilters.exchange

/** A way to one other process. One-way: what is sent may arrive, once or not at all. */
trait Wire {

  /** Never blocks; an exception means that it was not sent.
    *
    * @param payload
    *   a filter that is too large for a message: goes as a Spark broadcast that the receiver fetches
    */
  def send(message: Array[Byte], payload: Option[Payload]): Unit
}

/** A large filter, which is broadcast once for all who get it. */
trait Payload {
  def bytes: Int

  /** What is known of it on this side is dropped; who has not fetched it will not get it. */
  def release(): Unit
}
