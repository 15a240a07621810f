package org.dynamicfilters.scan

import java.io.{FileNotFoundException, IOException}
import java.util.concurrent.{
  ConcurrentHashMap,
  ConcurrentLinkedQueue,
  CountDownLatch,
  LinkedBlockingQueue,
  ThreadPoolExecutor,
  TimeUnit
}
import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileSystem
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.dynamicfilters.exchange.Worker

/** Asks the file system, once per query and process, whether files that learned statistics would exclude are unchanged.
  *
  * A listing may be stale, and stock Spark would open the file and read its current footer. So a file is skipped only
  * if it is still the one that the statistics were learned from.
  */
final class FileChecks {
  import FileChecks._

  // By path; None for a missing file.
  private val answers = new ConcurrentHashMap[String, Option[FileIdentity]]()

  /** Whether the file still is the listed one, so that the statistics found for it are valid.
    *
    * @return
    *   None if the file system has not answered
    */
  def isAsListed(file: PartitionedFile): Option[Boolean] =
    Option(answers.get(file.urlEncodedPath)).map(_.contains(FileIdentity.listed(file)))

  /** As [[isAsListed]], but asks the file system if necessary. That is cheaper than opening the file, as stock Spark
    * would.
    */
  def ask(file: PartitionedFile, conf: Configuration): Option[Boolean] = {
    if (!answers.containsKey(file.urlEncodedPath))
      try one(file.toPath.getFileSystem(conf), file)
      catch { case _: IOException => () } // Spark shows it, when it opens the file
    isAsListed(file)
  }

  /** Asks for many files in parallel, and waits for the answers for a limited time.
    *
    * @param scanned
    *   all files of the scan, to count the scanned files of each folder
    * @param millis
    *   longest wait. Later the tasks that would read a file ask for it. All scans of a query together wait at most
    *   twice as long, because Spark may start them one after the other
    */
  def askAll(
      files: Seq[PartitionedFile],
      scanned: Iterator[PartitionedFile],
      conf: Configuration,
      millis: Long = PatienceMillis
  ): Unit = {
    val wanted = files.filterNot(f => answers.containsKey(f.urlEncodedPath)).distinctBy(_.urlEncodedPath)
    if (wanted.nonEmpty) {
      val inFolder = scanned.map(_.urlEncodedPath).distinct.toSeq.groupMapReduce(folderOf)(_ => 1)(_ + _)
      val requests = new ConcurrentLinkedQueue[() => Unit]()
      val start = System.nanoTime()
      val deadline = start + math.min(TimeUnit.MILLISECONDS.toNanos(millis), left(millis))
      if (deadline > start) try {
        wanted.groupBy(f => folderOf(f.urlEncodedPath)).foreach { case (folder, fs) =>
          // On this thread, because the file system depends on the thread's user.
          val system = fs.head.toPath.getFileSystem(conf)
          val files = inFolder.getOrElse(folder, 0)
          if (fs.length >= MinToList && fs.length * MostListedPerFile >= files)
            requests.add(() => list(system, fs, files.toLong * MostListedPerFile, deadline))
          else fs.foreach(f => requests.add(() => one(system, f)))
        }
        all(requests, deadline)
      } finally waited.addAndGet(System.nanoTime() - start)
    }
  }

  private def left(millis: Long): Long = 2 * TimeUnit.MILLISECONDS.toNanos(millis) - waited.get
  private val waited = new AtomicLong

  private def one(system: FileSystem, file: PartitionedFile): Unit = {
    val answer =
      try Some(FileIdentity.fromStatus(system.getFileStatus(file.toPath)))
      catch { case _: FileNotFoundException => None }
    answers.put(file.urlEncodedPath, answer)
  }

  /** Asks for files of one folder by listing it. Stops if the folder has too many other files. */
  private def list(system: FileSystem, files: Seq[PartitionedFile], most: Long, deadline: Long): Unit = {
    val paths = files.map(f => f.toPath.getName -> f.urlEncodedPath).toMap
    val found = system.listStatusIterator(files.head.toPath.getParent)
    val left = scala.collection.mutable.HashSet.from(paths.keys)
    var listed = 0L
    while (left.nonEmpty && listed < most && System.nanoTime() < deadline && found.hasNext) {
      val status = found.next()
      listed += 1
      if (left.remove(status.getPath.getName))
        answers.put(paths(status.getPath.getName), Some(FileIdentity.fromStatus(status)))
    }
  }
}

object FileChecks {
  private val PatienceMillis = 2000L
  private val Threads = 8

  // Idle threads end after this time.
  private val IdleMillis = 1000L

  /** From this many files a folder is listed instead of asking for each file, if at most MostListedPerFile files are
    * listed for each wanted one. An object store lists 1,000 files in the time of one request.
    */
  private val MinToList = 8
  private val MostListedPerFile = 4

  private lazy val pool = {
    val p = new ThreadPoolExecutor(
      Threads,
      Threads,
      IdleMillis,
      TimeUnit.MILLISECONDS,
      new LinkedBlockingQueue[Runnable](),
      (work: Runnable) => {
        val t = new Thread(work, Worker.Prefix + "files")
        t.setDaemon(true)
        t
      }
    )
    p.allowCoreThreadTimeOut(true)
    p
  }

  private def folderOf(path: String): String = path.substring(0, path.lastIndexOf('/') + 1)

  // When a request last began or ended.
  @volatile private var moved = System.nanoTime()

  /** Whether all threads hang in requests, so that new requests would wait in vain. */
  private def isStuck: Boolean =
    pool.getActiveCount >= Threads && System.nanoTime() - moved > TimeUnit.MILLISECONDS.toNanos(PatienceMillis)

  /** Runs requests in parallel until all are done or the deadline has passed. Failures are ignored. Runs none while
    * earlier requests hang, even on another file system.
    */
  private[scan] def all(requests: ConcurrentLinkedQueue[() => Unit], deadline: Long): Unit = if (!isStuck) {
    val done = new CountDownLatch(requests.size)
    val threads = math.min(Threads, requests.size)
    (1 to threads).foreach { _ =>
      pool.execute { () =>
        var request = requests.poll()
        while (request != null && System.nanoTime() < deadline) {
          moved = System.nanoTime()
          try request()
          catch { case NonFatal(_) => () }
          moved = System.nanoTime()
          done.countDown()
          request = requests.poll()
        }
      }
    }
    done.await(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)
  }
}
