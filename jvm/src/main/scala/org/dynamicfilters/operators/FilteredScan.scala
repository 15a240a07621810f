package org.dynamicfilters.operators

import java.util.concurrent.TimeUnit

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{FileSourceScanExec, UnaryExecNode}
import org.apache.spark.sql.execution.datasources.FileScanRDD
import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.scan.{ApiFilter, ScanPlace}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{FilterRef, JoinRef, JoinWait, JoinWaits, TaskFilters}

/** A scan under dynamic filters. To the operators above it is the scan itself. */
trait FilteredScan extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def supportsColumnar: Boolean = child.supportsColumnar
  override def vectorTypes: Option[Seq[String]] = child.vectorTypes
  override def nodeName: String = NodeNames(FilteredScan.Name, filterIds)

  /** The ids of all its filters. */
  protected def filterIds: Seq[Long]

  /** The filters of joins, and where the scan stands to them. */
  def joinFilters: Seq[(JoinRef, ScanPlace)]

  /** Holds the scan's stage back until its filters are ready, where the planner found that worth it.
    *
    * Here, because Spark prepares the plan of a shuffle on the thread that submits it, before it takes the exchange's lock:
    * so neither the adaptive loop nor a cancellation is blocked.
    */
  override protected def doPrepare(): Unit = {
    JobNames.ofQuery(session.sparkContext)
    val longest = Settings.get(conf, Settings.JoinWaitTimeout)
    val waits = joinFilters
      .map { case (ref, place) => JoinWait(ref, place.waits.millis(longest), place.waits.endsAtStart) }
      .filter(_.millis > 0)
    val execution = TaskFilters.executionId(session.sparkContext)
    execution.foreach(JoinWaits.scanStarted(_, joinFilters.map(_._1)))
    if (waits.nonEmpty && execution.isDefined) {
      val made = MadeExchanges.of(execution.get)
      JoinWaits.await(execution.get, waits, made.look(this, _), longestInBroadcast) match {
        // What fills a cached table goes on: others read that too. So does whatever is not known to be of this query.
        case JoinWaits.Outcome.QueryEnded if made.isOwn(this) =>
          throw new SparkException("The query ended while a scan was held back for its dynamic filters")
        case _ =>
      }
    }
  }

  // Spark ends a query whose broadcast takes longer than its time, the wait included.
  private def longestInBroadcast: Long = {
    val seconds = conf.broadcastTimeout
    if (seconds > 0) TimeUnit.SECONDS.toMillis(seconds) / FilteredScan.PartOfBroadcast else Long.MaxValue
  }
}

object FilteredScan {

  /** A broadcast below which a scan is held back has nine tenths of its time left for its work. */
  private val PartOfBroadcast = 10

  /** Filters of joins that are complete now, of their build sides' types; none of others. */
  def complete(refs: IndexedSeq[FilterRef]): IndexedSeq[Option[ValueFilter]] = refs.map {
    case j: JoinRef => j.state.current
    case _ => None
  }

  /** In plans as text. */
  val Name = "DynamicFilterScan"

  /** Files that a scan reads without filters. */
  def filesOf(scan: FileSourceScanExec): Long = scan.inputRDD match {
    case f: FileScanRDD =>
      f.filePartitions.iterator.flatMap(_.files.iterator.map(_.urlEncodedPath)).toSet.size.toLong
    case _ => 0L
  }
}

/** A scan that is not Spark's own file scan. */
trait ApiFilteredScan extends FilteredScan {
  def filters: IndexedSeq[ApiFilter]

  override protected def filterIds: Seq[Long] = filters.map(_.ref.id)
  override def simpleString(maxFields: Int): String = s"${FilteredScan.Name} ${filters.mkString(", ")}"
  override def joinFilters: Seq[(JoinRef, ScanPlace)] =
    filters.map(f => (f.ref, f.place)).collect { case (j: JoinRef, place) => (j, place) }
}
