package org.dynamicfilters.scan

import java.io.IOException
import java.security.{MessageDigest, PrivilegedExceptionAction}
import java.util.{Arrays, UUID}
import java.util.concurrent._

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.security.UserGroupInformation
import org.apache.spark.internal.Logging
import org.dynamicfilters.filter.{KeyDomain, OwnFailure}
import org.dynamicfilters.scan.StoredStatistics._

/** Stores learned statistics of tables' files in a directory (setting `stats.path`), for later applications. On the
  * driver.
  *
  * There is one file per table. It is read before the table's first scan and written by a background thread after a
  * query that has learned something. Concurrent applications overwrite each other; what is lost is learned again.
  * Stored statistics exclude data only if the query has verified that the file is unchanged (contract 9).
  *
  * With it, the first TopK of an application over files without statistics (INT96 timestamps, Spark's default) takes a
  * fifth of the processor time (docs/configuration.md).
  *
  * After a failure, which is logged, the table is neither read nor written any more.
  */
final class StoredStatistics(statistics: FileStatistics) extends Logging {
  private val tables = new ConcurrentHashMap[Key, Table]()
  private val worker = new ThreadPoolExecutor(
    1,
    1,
    10,
    TimeUnit.SECONDS,
    new LinkedBlockingQueue[Runnable](),
    { run =>
      val thread = new Thread(run, "dynamic-filters-statistics")
      thread.setDaemon(true)
      thread
    }
  )
  worker.allowCoreThreadTimeOut(true)
  private var newest: Future[_] = CompletableFuture.completedFuture(())

  // The load that took too long. Until it is done, it blocks the worker.
  @volatile private var slow: Future[_] = newest

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
  def flush(millis: Long): Unit = {
    // The worker runs jobs in order, so it suffices to wait for the newest. The pool's counters miss a job that is
    // being dequeued.
    val before = synchronized(newest)
    try before.get(millis, TimeUnit.MILLISECONDS)
    catch { case NonFatal(_) => () }
  }

  private def submit(f: => Unit): Future[_] = synchronized {
    newest = worker.submit((() => f): Runnable)
    newest
  }

  /** Drops all tables, for tests and at the end of the application. */
  def clear(): Unit = tables.clear()

  private final class Table(place: Place) {
    @volatile private var domains = Map.empty[String, KeyDomain]
    @volatile private var failed = false
    @volatile private var queued = false
    private var last: Array[Byte] = _
    private val user = UserGroupInformation.getCurrentUser
    private val file = new Path(place.directory, nameOf(place.table))

    def startLoading(): Future[_] = submit(guarded("read")(load()))

    def add(more: Map[String, KeyDomain]): Unit = synchronized(domains ++= more)

    def saveLater(): Unit = if (!queued && !failed) {
      queued = true
      submit {
        queued = false
        guarded("written")(save())
      }
    }

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
              last = digestOf(bytes)
              synchronized { domains = known.domains ++ domains }
              // The file may only have statistics of this table's own files.
              known.files.filter(f => isBelow(f.path)).foreach(offer)
          }
        }
      }
    }

    private val isBelow = FileStatistics.isBelow(place.roots)

    /** Adds a file; its sizes come with one of its splits. */
    private def offer(f: FileRecord): Unit = {
      val sizes = f.sizes.toMap
      f.splits.groupBy(s => (s.start, s.end)).foreach { case (at, splits) =>
        splits.zipWithIndex.foreach { case (s, i) =>
          statistics.offer(if (i == 0) s.copy(sizes = sizes.get(at)) else s)
        }
      }
    }

    private def save(): Unit = {
      val state = (statistics.version, domains)
      val files = if (saved.contains(state)) Nil else statistics.below(place.roots, StatisticsCodec.MostRowGroups)
      if (files.nonEmpty) {
        val bytes = encoded(state._2, files)
        val digest = digestOf(bytes)
        if (!Arrays.equals(digest, last)) {
          write(bytes)
          last = digest
        }
      }
      saved = Some(state)
    }

    /** Encodes as many files as MostBytes allows. */
    private def encoded(domains: Map[String, KeyDomain], files: Seq[FileRecord]): Array[Byte] = {
      val bytes = StatisticsCodec.encode(TableFiles(place.table, domains, files))
      if (bytes.length <= MostBytes) bytes else encoded(domains, files.drop(files.size / 4 + 1))
    }

    // The state at the last write.
    private var saved: Option[(Long, Map[String, KeyDomain])] = None

    /** Replaces the file atomically, so that readers see the old or the new one. If the file system cannot rename so,
      * the checksum reveals a half-written file.
      */
    private def write(bytes: Array[Byte]): Unit = {
      val (fs, temporary) = (fileSystem, new Path(file.getParent, s".${file.getName}.${UUID.randomUUID()}"))
      def put(path: Path): Unit = Using.resource(fs.create(path, true))(_.write(bytes))
      try
        fs match {
          case local: RawLocalFileSystem =>
            put(temporary)
            if (!local.rename(temporary, file)) throw new IOException(s"$temporary cannot be renamed")
          case _ =>
            val context = FileContext.getFileContext(file.toUri, place.conf)
            put(temporary)
            context.rename(temporary, file, Options.Rename.OVERWRITE)
        }
      catch {
        case _: UnsupportedFileSystemException => put(file)
        case NonFatal(e) =>
          try fs.delete(temporary, false)
          catch { case NonFatal(again) => e.addSuppressed(again) }
          throw e
      }
    }

    /** Without Hadoop's checksum files for local files, which are not renamed together with them. */
    private def fileSystem: FileSystem = file.getFileSystem(place.conf) match {
      case local: LocalFileSystem => local.getRawFileSystem
      case fs => fs
    }

    private def guarded(what: String)(f: => Unit): Unit =
      if (!failed)
        try user.doAs(new PrivilegedExceptionAction[Unit] { override def run(): Unit = f })
        catch {
          case OwnFailure(e) =>
            failed = true
            logWarning(s"Dynamic filters: statistics in $file cannot be $what, they are kept in memory only", e)
        }
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

  /** About the encoded size of all statistics that memory holds. */
  private val MostBytes = 32 << 20
  private val MostTables = 1000

  /** A safe file name for any table path, with an underscore, so that Spark ignores the file in data folders. */
  private[scan] def nameOf(table: String): String =
    "_" + digestOf(table.getBytes("UTF-8")).iterator.take(16).map(b => f"${b & 0xff}%02x").mkString + ".statistics"

  private def digestOf(bytes: Array[Byte]): Array[Byte] = MessageDigest.getInstance("SHA-256").digest(bytes)

  val instance = new StoredStatistics(FileStatistics.instance)
}
