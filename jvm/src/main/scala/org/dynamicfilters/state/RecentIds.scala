package org.dynamicfilters.state

/** The newest ids that were put in, so many of them: of executions that have ended. Not thread-safe. */
final class RecentIds(most: Int = 10000) {
  private val ids = new java.util.LinkedHashMap[Long, java.lang.Boolean]() {
    override def removeEldestEntry(e: java.util.Map.Entry[Long, java.lang.Boolean]): Boolean = size > most
  }
  def add(id: Long): Unit = ids.put(id, true)
  def contains(id: Long): Boolean = ids.containsKey(id)
}

/** Executions of this application that have ended, the newest of them. Thread-safe.
  *
  * Whoever keeps something by execution asks after it has stored it: either it sees that the execution has ended, or the end
  * sees what was stored.
  */
final class EndedExecutions {
  private var ids = new RecentIds()
  def add(id: Long): Unit = synchronized(ids.add(id))
  def contains(id: Long): Boolean = synchronized(ids.contains(id))
  def clear(): Unit = synchronized { ids = new RecentIds() }
}
