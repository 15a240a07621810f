package org.dynamicfilters.plan

import org.apache.spark.SparkException
import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.Settings
import org.dynamicfilters.exchange.{JoinRef, JoinWaits, TaskFilters}
import org.dynamicfilters.scan.ScanPlace

/** A scan under dynamic filters. */
trait FilteredScan extends SparkPlan {

  /** The filters of joins, and where the scan stands to them. */
  def joinFilters: Seq[(JoinRef, ScanPlace)]

  /** Holds the scan's stage back until its filters are ready, where the planner found that worth it.
    *
    * To be called by `doPrepare`, because Spark prepares the plan of a shuffle on the thread that submits it, before it takes
    * the exchange's lock: so neither the adaptive loop nor a cancellation is blocked.
    */
  protected def awaitFilters(): Unit = {
    val refs = joinFilters.collect { case (ref, place) if place.waits => ref }
    val execution = TaskFilters.executionId(session.sparkContext)
    val millis = Settings.get(conf, Settings.JoinWaitTimeout)
    if (refs.nonEmpty && execution.isDefined && millis > 0)
      JoinWaits.await(execution.get, refs, millis) match {
        case JoinWaits.Outcome.QueryEnded =>
          throw new SparkException("The query ended while a scan was held back for its dynamic filters")
        case _ =>
      }
  }
}
