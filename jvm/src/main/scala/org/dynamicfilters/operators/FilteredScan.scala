package org.dynamicfilters.operators

import java.util.concurrent.TimeUnit

import org.apache.spark.SparkException
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources.FileScanRDD
import org.dynamicfilters.scan.ScanPlace
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state._

/** A scan under dynamic filters: wraps a scan. */
trait FilteredScan extends SameOutput {
  override def supportsColumnar: Boolean = child.supportsColumnar
  override def vectorTypes: Option[Seq[String]] = child.vectorTypes
  override def nodeName: String = NodeNames(FilteredScan.Name, filterIds)

  /** The ids of all its filters. */
  protected def filterIds: Seq[Long]

  /** The filters of joins, and where the scan stands to them. */
  def joinFilters: Seq[(JoinRef, ScanPlace)]

  /** Holds the scan's stage back until its filters are ready, if the planner asked for that.
    *
    * This is the right place: Spark prepares a shuffle's plan on the submitting thread, before it takes the exchange's lock. So
    * the wait blocks neither the adaptive loop nor a cancellation.
    */
  override protected def doPrepare(): Unit = {
    JobNames.setForQuery(session.sparkContext)
    val longest = Settings.get(conf, Settings.JoinWaitTimeout)
    val waits = joinFilters
      .map { case (ref, place) => JoinWait(ref, place.waits.millis(longest), place.waits.endsAtStart) }
      .filter(_.millis > 0)
    val execution = TaskFilters.executionId(session.sparkContext)
    execution.foreach(JoinWaits.scanStarted(_, joinFilters.map(_._1)))
    if (waits.nonEmpty && execution.isDefined) {
      val made = MadeExchanges.ofExecution(execution.get)
      val hasEnded = JoinWaits.await(execution.get, waits, made.look(this, _), longestInBroadcast)
      // A scan that fills a cached table does not fail: other queries read that table, too. Nor does a scan that is not known to
      // belong to this query.
      if (hasEnded && made.isOwn(this))
        throw new SparkException("The query ended while a scan was held back for its dynamic filters")
    }
  }

  /** Records that the scan starts, as an RDD of this stage. */
  protected def started[R <: RDD[_]](scanned: R): R = {
    val states = joinFilters.map(_._1.state)
    states.filter(_.current.isDefined).foreach(_.record.usedFromStart())
    TaskFilters.executionId(sparkContext).foreach(RunningStages.scanStarted(_, scanned.id, states))
    scanned
  }

  // Spark fails a query whose broadcast takes longer than its timeout. The wait counts.
  private def longestInBroadcast: Long = {
    val seconds = conf.broadcastTimeout
    if (seconds > 0) TimeUnit.SECONDS.toMillis(seconds) / FilteredScan.PartOfBroadcast else Long.MaxValue
  }
}

object FilteredScan {

  /** A wait below a broadcast may take one part in so many of the broadcast's timeout. The rest is left for its work. */
  private val PartOfBroadcast = 10

  /** The filters of joins and subqueries that are complete now, in the types of their build sides and values. */
  def complete(refs: IndexedSeq[FilterRef]): IndexedSeq[Option[NamedFilter]] = refs.map {
    case j: JoinRef => j.state.named
    case s: SubqueryRef => s.state.named
    case _ => None
  }

  /** Text of the filters in plans. */
  val Name = "DynamicFilterScan"

  /** Number of files that a scan reads without filters. */
  def fileCount(scan: FileSourceScanExec): Long = scan.inputRDD match {
    case f: FileScanRDD =>
      f.filePartitions.iterator.flatMap(_.files.iterator.map(_.urlEncodedPath)).toSet.size.toLong
    case _ => 0L
  }
}
