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

/** Keeps what was learned of tables' files in a directory, for the applications that come later. On the driver.
  *
  * One file a table, read before the table's first scan, and written by a thread of its own after a query that learned
  * something. Applications that write at the same time overwrite each other: what is lost is learned again. What is read is a
  * hint like all that was learned (contract 9): it excludes data only of a file that was asked in this query whether it is
  * still the one with this length and time.
  *
  * What it is for: the first TopK of an application over files without statistics (INT96 timestamps, which Spark writes by
  * default) takes a fifth of the processor time that it takes without (figures in docs/configuration.md).
  *
  * A failure is logged once a table, which then is neither read nor written any more.
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

  // What took too long: as long as it is not done, it keeps the worker from all else.
  @volatile private var slow: Future[_] = newest

  /** Takes in what earlier applications learned of the table; waits for it for a moment, the first time.
    *
    * @param domains
    *   of the scan's columns, by [[ScanSpec.statisticsKey]]
    * @return
    *   the table, to be saved when the query has ended
    */
  def load(place: Place, domains: Map[String, KeyDomain]): AutoCloseable = {
    if (tables.size > MostTables) tables.clear()
    var isNew = false
    val table = tables.computeIfAbsent(Key(place.directory, place.table), { _ => isNew = true; new Table(place) })
    table.add(domains)
    // Only the first query waits, and only for the first table: a directory that hangs costs no other anything.
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

  /** Waits until what is to be written is written, for as long at most. */
  def flush(millis: Long): Unit = {
    // The worker takes one after the other. Its counts would not do: a task that is just being taken is in none of them.
    val before = synchronized(newest)
    try before.get(millis, TimeUnit.MILLISECONDS)
    catch { case NonFatal(_) => () }
  }

  private def submit(f: => Unit): Future[_] = synchronized {
    newest = worker.submit((() => f): Runnable)
    newest
  }

  /** Forgets what it has read; for tests and for an application's end. */
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
              // Whoever may write here says nothing of other tables.
              known.files.filter(f => isBelow(f.path)).foreach(offer)
          }
        }
      }
    }

    private val isBelow = FileStatistics.isBelow(place.roots)

    /** A file's sizes come with one of its splits. */
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

    /** Of so many files as there is room for. */
    private def encoded(domains: Map[String, KeyDomain], files: Seq[FileRecord]): Array[Byte] = {
      val bytes = StatisticsCodec.encode(TableFiles(place.table, domains, files))
      if (bytes.length <= MostBytes) bytes else encoded(domains, files.drop(files.size / 4 + 1))
    }

    // What was known when it was written last.
    private var saved: Option[(Long, Map[String, KeyDomain])] = None

    /** Whoever reads at the same time finds the old file or the new one; where a file system cannot do that, the checksum tells
      * what is half written.
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

    /** Without the checksums beside local files: they are not renamed together with them. */
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

  /** Where statistics of a table are kept.
    *
    * @param directory
    *   a path or URI, see the setting `stats.path`
    * @param roots
    *   of the table's files, encoded as URIs
    */
  final case class Place(directory: String, roots: Seq[String], conf: Configuration) {
    val table: String = roots.sorted.mkString("\n")
  }

  private final case class Key(directory: String, table: String)

  /** As long the first query of a table waits for what earlier applications learned: on a busy machine a process that has just
    * started takes a second, and a first run that knows nothing costs more.
    */
  private val LoadMillis = 3000L

  /** As many as are kept in memory take about that. */
  private val MostBytes = 32 << 20
  private val MostTables = 1000

  /** A file's name that no table's path breaks out of, and that Spark takes for no data in whatever folder it is. */
  private[scan] def nameOf(table: String): String =
    "_" + digestOf(table.getBytes("UTF-8")).iterator.take(16).map(b => f"${b & 0xff}%02x").mkString + ".statistics"

  private def digestOf(bytes: Array[Byte]): Array[Byte] = MessageDigest.getInstance("SHA-256").digest(bytes)

  val instance = new StoredStatistics(FileStatistics.instance)
}
