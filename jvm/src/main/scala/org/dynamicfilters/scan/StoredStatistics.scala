package org.dynamicfilters.scan

import java.io.IOException
import java.security.{MessageDigest, PrivilegedExceptionAction}
import java.util.UUID
import java.util.concurrent._
import java.util.concurrent.atomic.AtomicBoolean

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.security.UserGroupInformation
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.filter.{KeyDomain, PluginFailure}
import org.dynamicfilters.scan.StoredStatistics._

/** Stores learned statistics of tables' files in a directory (setting `stats.path`), for later applications. On the
  * driver.
  *
  * There is one file per table. It is read before the table's first scan and written by a background thread after a
  * query that has learned something. Concurrent applications overwrite each other; what is lost is learned again.
  * Stored statistics exclude data only if the query has verified that the file is unchanged (contract 9).
  *
  * With it, the first TopK of an application over files without statistics (INT96 timestamps, Spark's default) reads
  * the best files first.
  *
  * After a failure, which is logged, the table is neither read nor written any more.
  */
final class StoredStatistics(statistics: FileStatistics) extends Logging {
  private val tables = new ConcurrentHashMap[Key, Table]()
  private val worker = SparkAccess.threads("dynamic-filters-statistics", 1)

  // The load that took too long. Until it is done, it blocks the worker.
  @volatile private var slow: Future[_] = CompletableFuture.completedFuture(())

  /** Loads the stored statistics of a table. The first call for a table waits for a limited time.
    *
    * @param domains
    *   by column of the scan ([[ScanSpec.statisticsKey]])
    * @return
    *   saves the table when closed, after the query
    */
  def load(place: Place, domains: Map[String, KeyDomain]): AutoCloseable = {
    if (tables.size > MostTables) tables.clear()
    var isNew = false
    val table = tables.computeIfAbsent(Key(place.directory, place.table), { _ => isNew = true; new Table(place) })
    table.add(domains)
    // Only a table's first query waits, and no query waits while an earlier load hangs.
    if (isNew) {
      val isStuck = !slow.isDone
      val loading = table.startLoading()
      if (!isStuck)
        try loading.get(LoadMillis, TimeUnit.MILLISECONDS)
        catch {
          case _: TimeoutException =>
            slow = loading
            logWarning(
              s"Dynamic filters: statistics in ${place.directory} are not there after $LoadMillis ms, nothing waits for them"
            )
          case NonFatal(_) => ()
        }
    }
    () => table.saveLater()
  }

  /** Waits until all queued writes are done, at most for this time. */
  def flush(millis: Long): Unit =
    // The worker runs jobs in order.
    try worker.submit((() => ()): Runnable).get(millis, TimeUnit.MILLISECONDS)
    catch { case NonFatal(_) => () }

  /** Drops all tables, for tests and at the end of the application. */
  def clear(): Unit = tables.clear()

  private final class Table(place: Place) {
    @volatile private var domains = Map.empty[String, KeyDomain]
    @volatile private var failed = false
    private val user = UserGroupInformation.getCurrentUser
    private val file = new Path(place.directory, nameOf(place.table))

    def startLoading(): Future[_] = submit("read")(load())
    def saveLater(): Unit = if (queued.compareAndSet(false, true)) submit("written") { queued.set(false); save() }
    private val queued = new AtomicBoolean

    def add(more: Map[String, KeyDomain]): Unit = synchronized(domains ++= more)

    private def load(): Unit = {
      val fs = fileSystem
      if (fs.exists(file)) {
        val length = fs.getFileStatus(file).getLen
        if (length > MostBytes) logWarning(s"Dynamic filters: $file has $length bytes, more than $MostBytes: not read")
        else {
          val bytes = Using.resource(fs.open(file))(_.readAllBytes())
          StatisticsCodec.decode(bytes).filterOrElse(_.table == place.table, "it is of another table") match {
            case Left(why) => logWarning(s"Dynamic filters: statistics in $file are not used: $why")
            case Right(known) =>
              synchronized { domains = known.domains ++ domains }
              // The file may only have statistics of this table's own files.
              known.splits.filter(s => isBelow(s.path)).foreach(statistics.offer)
              saved = Some((statistics.version, domains))
          }
        }
      }
    }

    private val isBelow = FileStatistics.isBelow(place.roots)

    private def save(): Unit = {
      val state = (statistics.version, domains)
      val splits = if (saved.contains(state)) Nil else statistics.below(place.roots, StatisticsCodec.MostRowGroups)
      if (splits.nonEmpty) write(StatisticsCodec.encode(TableFiles(place.table, state._2, splits)))
      saved = Some(state)
    }

    // The state at the last read or write.
    private var saved: Option[(Long, Map[String, KeyDomain])] = None

    /** Replaces the file by renaming, so that readers see the old or the new one. If the file system cannot do so, the
      * checksum reveals a half-written file.
      */
    private def write(bytes: Array[Byte]): Unit = {
      val (fs, temporary) = (fileSystem, new Path(file.getParent, s".${file.getName}.${UUID.randomUUID()}"))
      try {
        Using.resource(fs.create(temporary, true))(_.write(bytes))
        // HDFS replaces no file, and S3A throws.
        def rename(): Boolean = try fs.rename(temporary, file)
        catch { case _: FileAlreadyExistsException => false }
        if (!rename() && !(fs.delete(file, false) && rename())) throw new IOException(s"$temporary cannot be renamed")
      } finally fs.delete(temporary, false)
    }

    /** Without Hadoop's checksum files for local files, which are not renamed together with them. */
    private def fileSystem: FileSystem = file.getFileSystem(place.conf) match {
      case local: LocalFileSystem => local.getRawFileSystem
      case fs => fs
    }

    private def submit(what: String)(f: => Unit): Future[_] = worker.submit({ () =>
      if (!failed)
        try user.doAs(new PrivilegedExceptionAction[Unit] { override def run(): Unit = f })
        catch {
          case PluginFailure(e) =>
            failed = true
            logWarning(s"Dynamic filters: statistics in $file cannot be $what, they are kept in memory only", e)
        }
    }: Runnable)
  }
}

object StoredStatistics {

  /** Where the statistics of a table are stored.
    *
    * @param directory
    *   a path or URI, see the setting `stats.path`
    * @param roots
    *   root paths of the table's files, as URL-encoded URIs
    */
  final case class Place(directory: String, roots: Seq[String], conf: Configuration) {
    val table: String = roots.sorted.mkString("\n")
  }

  private final case class Key(directory: String, table: String)

  /** Longest wait of a table's first query for a load. A process that has just started on a busy machine takes a
    * second, and a first run without statistics costs more.
    */
  private val LoadMillis = 3000L

  /** More than the encoded size of all statistics that memory holds. */
  private val MostBytes = 64 << 20
  private val MostTables = 1000

  /** A safe file name for any table path, with an underscore, so that Spark ignores the file in data folders. */
  private[scan] def nameOf(table: String): String =
    MessageDigest
      .getInstance("SHA-256")
      .digest(table.getBytes("UTF-8"))
      .take(16)
      .map(b => f"${b & 0xff}%02x")
      .mkString("_", "", ".statistics")

  val instance = new StoredStatistics(FileStatistics.instance)
}

/** Finds the root folders or files of a table, which identify it in [[StoredStatistics]]. */
object TableRoots {

  /** The table's own folder, if it is known. Spark's file index of a partitioned catalog table has only the queried
    * partitions' folders as roots, which differ between queries. For Hive tables, whose options lack the folder, it is
    * the common parent of the partition folders (`name=value`).
    *
    * @return
    *   URL-encoded URIs
    */
  def forRelation(relation: HadoopFsRelation, conf: Configuration): Seq[String] = {
    val roots = relation.location.rootPaths
    val named = relation.options.get("path").map(new Path(_)).map(p => p.getFileSystem(conf).makeQualified(p))
    def common = Option(roots.map(withoutValues).distinct).filter(_.size == 1).map(_.head)
    named
      .orElse(common)
      .filter(folder => roots.nonEmpty && roots.forall(isIn(_, folder)))
      .fold(roots)(Seq(_))
      .map(_.toUri.toString)
  }

  private def withoutValues(path: Path): Path =
    Iterator.iterate(path)(_.getParent).dropWhile(p => p.getParent != null && p.getName.indexOf('=') > 0).next()

  private def isIn(path: Path, folder: Path): Boolean =
    Iterator.iterate(path)(_.getParent).takeWhile(_ != null).contains(folder)
}
