package org.dynamicfilters.operators

import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.dynamicfilters.report.QueryReports
import org.dynamicfilters.state.{JoinWaits, TaskFilters}

/** Names the jobs of stages that Spark submits on threads of its own by the query that they work for.
  *
  * Spark names a job by the user's line in the stack of the thread that submits it, which such a thread does not have
  * (`$anonfun$withThreadLocalCaptured$1 at CompletableFuture.java`). Its local properties are the submission's own: Spark puts
  * those back that were there before.
  */
private[operators] object JobNames extends Logging {
  private val (shortForm, longForm) = ("callSite.short", "callSite.long")

  /** Where no name is set, as PySpark does for its actions. */
  def ofQuery(sc: SparkContext): Unit =
    try
      if (JoinWaits.isSubmitting && sc.getLocalProperty(shortForm) == null)
        TaskFilters.executionId(sc).flatMap(QueryReports.instance.find).foreach { query =>
          if (query.description.nonEmpty) {
            sc.setLocalProperty(shortForm, query.description)
            sc.setLocalProperty(longForm, query.callSite)
          }
        }
    catch { case NonFatal(e) => logDebug("Dynamic filters: a job is not named by its query", e) }
}
