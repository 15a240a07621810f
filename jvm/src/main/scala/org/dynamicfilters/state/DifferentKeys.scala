package org.dynamicfilters.state

import scala.collection.mutable

/** The best different keys of a TopK that looks for keys and not for rows.
  *
  * All partitions have one list: a key that two of them have, or two attempts of one, is the same key, so nothing is ever
  * replaced. With a list for each partition a thousand tasks that knew the same thousand keys were a million keys, merged anew
  * for each of them.
  *
  * @param limit
  *   keys that are kept
  */
private[state] final class DifferentKeys(spec: TopKSpec, limit: Int) {
  private var keys = TaskTopK.none

  def size: Int = keys.length

  /** The worst of those that are kept. */
  def worst: AnyRef = keys(keys.length - 1)

  /** Adds keys.
    *
    * @param more
    *   best first, as often as they come
    * @return
    *   whether some are new and among the best
    */
  def add(more: Array[AnyRef]): Boolean = {
    val merged = new Array[AnyRef](math.min(limit.toLong, keys.length.toLong + more.length).toInt)
    var (k, m, n) = (0, 0, 0)
    var isNews = false
    while (m < merged.length && (k < keys.length || n < more.length)) {
      val c = if (k >= keys.length) 1 else if (n >= more.length) -1 else spec.order.compare(keys(k), more(n))
      if (c <= 0) {
        merged(m) = keys(k)
        k += 1
        m += 1
      } else if (m == 0 || spec.order.compare(merged(m - 1), more(n)) != 0) {
        merged(m) = more(n)
        m += 1
        isNews = true
        n += 1
      } else n += 1
    }
    if (isNews) keys = if (m == merged.length) merged else java.util.Arrays.copyOf(merged, m)
    isNews
  }

  /** Best first; never changed. */
  def all: Array[AnyRef] = keys
}

private[state] object DifferentKeys {

  /** Of keys that are sent together; a message takes 4 MiB. */
  private val PartBytes = 256 * 1024L

  /** The keys in parts that can be sent by themselves, in their order. */
  def inParts(keys: Array[AnyRef]): Seq[Array[AnyRef]] =
    if (keys.isEmpty) Nil
    else {
      // Where each part begins.
      val starts = mutable.ArrayBuffer(0)
      var bytes = 0L
      keys.indices.foreach { i =>
        val more = TaskTopK.bytesOf(keys(i))
        if (i > starts.last && bytes + more > PartBytes) {
          starts += i
          bytes = 0
        }
        bytes += more
      }
      starts.zip(starts.drop(1) :+ keys.length).map { case (from, until) => keys.slice(from, until) }.toSeq
    }
}
