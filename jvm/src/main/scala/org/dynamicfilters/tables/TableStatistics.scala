package org.dynamicfilters.tables

import org.apache.spark.sql.types.StructField
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain}

/** What the logs of tables say of their files, on the driver, read once for each version and column.
  *
  * Bounded by files, least recently used columns first.
  */
final class TableStatistics(maxFiles: Int) {
  import TableStatistics._
  private val columns = new java.util.LinkedHashMap[Key, Map[String, ColumnBounds]](16, 0.75f, true)
  private var files = 0L

  /** @return
    *   bounds of the column by URL-encoded path of the file; empty where the log says nothing or has too many files
    */
  def bounds(table: DeltaTable, field: StructField, domain: KeyDomain): Map[String, ColumnBounds] = {
    val key = Key(table.id, s"${field.name}|${field.metadata.json}", field.dataType.sql)
    // Two queries may read the same at the same time; nobody waits for a job under a lock.
    synchronized(Option(columns.get(key))).getOrElse {
      val read = table.read(field, domain, maxFiles / 4).getOrElse(Map.empty)
      keep(key, read.filter(_._2 != ColumnBounds.unknown))
    }
  }

  private def keep(key: Key, read: Map[String, ColumnBounds]): Map[String, ColumnBounds] = synchronized {
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
  private final case class Key(table: (String, Long), column: String, dataType: String)

  /** A column without any file takes a place too. */
  private val Overhead = 10L

  /** Some 250 bytes a file, of which paths are the most: at most about 50 MiB. */
  val instance = new TableStatistics(200000)
}
