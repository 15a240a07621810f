package org.dynamicfilters.tables

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.types.StructField

/** What the logs of tables say of their files, on the driver, read once for each version and column.
  *
  * A version that differs from one that was read in few files only is not read: the others are as they were, and the new files
  * are opened. So a table with a commit for each query (MERGE is one) has its log read now and then.
  *
  * Bounded by files, least recently used columns first.
  */
final class TableStatistics(maxFiles: Int) {
  import TableStatistics._
  private val columns = new java.util.LinkedHashMap[Key, LoggedBounds](16, 0.75f, true)
  private var files = 0L

  /** So many files a table may have. */
  val mostOfTable: Int = maxFiles / 4

  /** @param id
    *   the table's own and the version
    * @param wanted
    *   URL-encoded paths of the files in question
    * @param read
    *   reads the log of this version; None where it says nothing, or of too many files
    * @return
    *   bounds of the column
    */
  def bounds(id: (String, Long), field: StructField, wanted: Set[String])(
      read: => Option[LoggedBounds]
  ): LoggedBounds = {
    val key = Key(id._1, id._2, s"${field.name}|${field.metadata.json}", field.dataType.sql)
    // Two queries may read the same at the same time; nobody waits for a job under a lock.
    synchronized(Option(columns.get(key)).orElse(ofOtherVersion(key, wanted)))
      .getOrElse(keep(key, read.getOrElse(LoggedBounds.none).known))
  }

  private def ofOtherVersion(key: Key, wanted: Set[String]): Option[LoggedBounds] =
    columns.keySet.asScala
      .filter(_.copy(version = key.version) == key)
      .minByOption(k => math.abs(k.version - key.version))
      .map(columns.get(_).ofAnyVersion)
      .filter(known => wanted.count(known.get(_).isEmpty) <= wanted.size / OneInUnknown)

  private def keep(key: Key, read: LoggedBounds): LoggedBounds = synchronized {
    Option(columns.put(key, read)).foreach(files -= Overhead + _.size)
    files += Overhead + read.size
    val eldest = columns.entrySet.iterator
    while (files > maxFiles && eldest.hasNext) {
      files -= Overhead + eldest.next().getValue.size
      eldest.remove()
    }
    read
  }

  def clear(): Unit = synchronized { columns.clear(); files = 0 }
}

object TableStatistics {
  private final case class Key(table: String, version: Long, column: String, dataType: String)

  /** A column without any file takes a place too. */
  private val Overhead = 10L

  /** To open a file in 100 takes less time than a job that reads the log. */
  private val OneInUnknown = 100

  /** Some 250 bytes a file, of which paths are the most: at most about 50 MiB. */
  val instance = new TableStatistics(200000)
}
