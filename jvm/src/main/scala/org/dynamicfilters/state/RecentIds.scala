package org.dynamicfilters.state

/** The newest ids that were put in, so many of them. Not thread-safe. */
final class RecentIds(most: Int = 10000) {
  private val ids = new java.util.LinkedHashMap[Long, java.lang.Boolean]() {
    override def removeEldestEntry(e: java.util.Map.Entry[Long, java.lang.Boolean]): Boolean = size > most
  }
  def add(id: Long): Unit = ids.put(id, true)
  def contains(id: Long): Boolean = ids.containsKey(id)
}
