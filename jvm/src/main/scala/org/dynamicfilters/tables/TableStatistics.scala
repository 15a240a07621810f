package org.dynamicfilters.tables

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.types.StructField
import org.dynamicfilters.filter.ColumnBounds

/** Cache of the bounds in tables' logs, read once for each version for all columns of a scan. On the driver.
  *
  * The log of a version is read only if many of its scanned files are unknown from other versions. The bounds of known
  * files still hold, and the others are opened. So the log of a table with a commit for each query, such as a MERGE, is
  * read only now and then.
  *
  * Bounded by the number of files. Drops the least recently used columns first.
  */
final class TableStatistics(maxFiles: Int) {
  import TableStatistics._
  private val columns = new java.util.LinkedHashMap[Key, LoggedBounds](16, 0.75f, true)
  private var files = 0L

  /** Largest number of files of a table whose log is read. */
  val mostOfTable: Int = maxFiles / 4

  /** @param id the table's id and the version
    * @param wanted URL-encoded paths of the scanned files
    * @param ofTable number of files of the table, if known
    * @param read reads the log of this version for some of the columns; columns without bounds are missing in the
    *   result
    * @return bounds of all columns
    */
  def bounds(id: (String, Long), fields: Seq[StructField], wanted: Set[String], ofTable: Option[Long] = None)(
      read: Seq[StructField] => Map[StructField, LoggedBounds]
  ): Map[StructField, LoggedBounds] = {
    val keys = fields.distinct.map(f => f -> Key(id._1, id._2, s"${f.name}|${f.metadata.json}", f.dataType.sql)).toMap
    // Read without a lock. Two queries may read the same log at the same time.
    val known = synchronized {
      keys.flatMap { case (f, key) =>
        Option(columns.get(key)).orElse(ofOtherVersion(key, wanted, ofTable)).map(f -> _)
      }
    }
    val unknown = fields.distinct.filterNot(known.contains)
    val found = if (unknown.isEmpty) Map.empty[StructField, LoggedBounds] else read(unknown)
    known ++ unknown.map(f => f -> keep(keys(f), found.getOrElse(f, LoggedBounds.none).known))
  }

  private def ofOtherVersion(key: Key, wanted: Set[String], ofTable: Option[Long]): Option[LoggedBounds] = {
    val nearest = columns.keySet.asScala
      .filter(k => k.table == key.table && k.copy(version = key.version) == key)
      .minByOption(k => math.abs(k.version - key.version))
      .fold(LoggedBounds.none)(columns.get(_).ofAnyVersion)
    val unknown = wanted.count(nearest.get(_).isEmpty)
    val all = math.max(wanted.size.toLong, ofTable.getOrElse(0L))
    Option.when(unknown <= all / OneInUnknown)(nearest)
  }

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

  /** A column without files counts as one file. */
  private val Overhead = 10L

  /** The log is read only if more than one file of the table in so many is scanned and unknown. Opening fewer is
    * cheaper: the job that reads the log takes some 30 microseconds for each file of the table, opening a file takes
    * milliseconds.
    */
  private val OneInUnknown = 100

  /** At most about 50 MiB: a file takes 250 bytes, mostly for its path. */
  val instance = new TableStatistics(200000)
}

/** Bounds of one column in one version of a table, by the file's URL-encoded path.
  *
  * @param whole files without deleted rows in this version; their bounds hold in every version
  * @param others files with deleted rows; an older or restored version may have more rows of them
  */
final case class LoggedBounds(whole: Map[String, ColumnBounds], others: Map[String, ColumnBounds]) {

  /** Number of files. */
  def size: Int = whole.size + others.size

  def get(file: String): Option[ColumnBounds] = whole.get(file).orElse(others.get(file))

  /** A copy without files that have no bounds. */
  def known: LoggedBounds = {
    def some(of: Map[String, ColumnBounds]) = of.filter(_._2 != ColumnBounds.unknown)
    LoggedBounds(some(whole), some(others))
  }

  /** The bounds that hold in every version of the table. */
  def ofAnyVersion: LoggedBounds = copy(others = Map.empty)
}

object LoggedBounds {
  val none: LoggedBounds = LoggedBounds(Map.empty, Map.empty)
}
