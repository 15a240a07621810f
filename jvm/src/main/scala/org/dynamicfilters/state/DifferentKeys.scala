package org.dynamicfilters.state

import scala.collection.mutable

/** The best distinct keys of a TopK that needs keys instead of rows. [[TopKState]] uses it.
  *
  * All partitions and attempts share one list, because a key exists if any of them has seen it. With one list for each
  * partition, a thousand tasks with the same thousand keys would hold a million.
  *
  * @param limit
  *   number of keys to keep
  */
private[state] final class DifferentKeys(spec: TopKSpec, limit: Int) {
  private var keys = TaskTopK.none

  def size: Int = keys.length

  /** The worst of the kept keys. */
  def worst: AnyRef = keys(keys.length - 1)

  /** Adds keys.
    *
    * @param more
    *   best first, may have duplicates
    * @return
    *   whether a new key is among the best
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

  /** Limit for keys in one part; a message takes 4 MiB. */
  private val PartBytes = 256 * 1024L

  /** Splits the keys into parts that fit into a message, in order. */
  def inParts(keys: Array[AnyRef]): Seq[Array[AnyRef]] =
    if (keys.isEmpty) Nil
    else {
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
