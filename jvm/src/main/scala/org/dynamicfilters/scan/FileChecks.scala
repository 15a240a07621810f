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

/** What the file system says, in one query, of files that learned statistics would exclude.
  *
  * A listing may be older than a file's content, and stock Spark would open the file and read the real footer. So a file is
  * left out only if it is still the one that the statistics were learned of. Each file is asked for once a query and process.
  */
final class FileChecks {
  import FileChecks._

  // By path; None for a file that is missing.
  private val answers = new ConcurrentHashMap[String, Option[FileIdentity]]()

  /** Whether the file is the one that was listed, hence the one that statistics found for it were learned of.
    *
    * @return
    *   None if the file system has not answered
    */
  def isAsListed(file: PartitionedFile): Option[Boolean] =
    Option(answers.get(file.urlEncodedPath)).map(_.contains(FileIdentity.listed(file)))

  /** As [[isAsListed]], and asks the file system if that was not done before. It takes less than to open the file, which is what
    * stock Spark would do.
    */
  def ask(file: PartitionedFile, conf: Configuration): Option[Boolean] = {
    if (!answers.containsKey(file.urlEncodedPath))
      try one(file.toPath.getFileSystem(conf), file)
      catch { case _: IOException => () } // Spark shows it, when it opens the file
    isAsListed(file)
  }

  /** Asks for many files at once, and waits for the answers for so long at most.
    *
    * @param scanned
    *   all files of the scan, to find out of how many files of their folders they are
    * @param millis
    *   files without an answer by then are asked for by the tasks that would read them. All scans of a query together wait
    *   for twice as long, as Spark may start them one after the other
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
          // Here, because it depends on the user that the thread works for.
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
      try Some(FileIdentity.of(system.getFileStatus(file.toPath)))
      catch { case _: FileNotFoundException => None }
    answers.put(file.urlEncodedPath, answer)
  }

  /** Files of one folder by listing it, unless it turns out to hold many others. */
  private def list(system: FileSystem, files: Seq[PartitionedFile], most: Long, deadline: Long): Unit = {
    val paths = files.map(f => f.toPath.getName -> f.urlEncodedPath).toMap
    val found = system.listStatusIterator(files.head.toPath.getParent)
    val left = scala.collection.mutable.HashSet.from(paths.keys)
    var listed = 0L
    while (left.nonEmpty && listed < most && System.nanoTime() < deadline && found.hasNext) {
      val status = found.next()
      listed += 1
      if (left.remove(status.getPath.getName))
        answers.put(paths(status.getPath.getName), Some(FileIdentity.of(status)))
    }
  }
}

object FileChecks {

  /** Why a file is read that learned statistics would exclude. */
  val Changed = "a file was written anew since its statistics were learned"

  private val PatienceMillis = 2000L
  private val Threads = 8

  // Threads end after it.
  private val IdleMillis = 1000L

  /** Files of one folder from which on the folder is listed, if it holds no more than that many others for each of them: an
    * object store lists 1,000 files in the time of one.
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

  // When a request was begun or answered last.
  @volatile private var moved = System.nanoTime()

  /** Whether each thread hangs in a request: whoever asks now would wait for nothing. */
  private def isStuck: Boolean =
    pool.getActiveCount >= Threads && System.nanoTime() - moved > TimeUnit.MILLISECONDS.toNanos(PatienceMillis)

  /** Makes requests in parallel until all are answered or the time is over; those that fail have no answer. None are made as
    * long as earlier ones hang, of whatever file system.
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
