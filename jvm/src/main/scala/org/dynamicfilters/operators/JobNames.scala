package org.dynamicfilters.operators

import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.dynamicfilters.report.QueryReports
import org.dynamicfilters.state.{JoinWaits, TaskFilters}

/** Names the jobs that Spark submits on threads of its own after their query.
  *
  * Spark names a job by the user's line in the stack of the submitting thread. Spark's own threads have no such line, and the
  * job would be called `$anonfun$withThreadLocalCaptured$1 at CompletableFuture.java`. The name is a local property, which Spark
  * restores after the submission.
  */
private[operators] object JobNames extends Logging {
  private val (shortForm, longForm) = ("callSite.short", "callSite.long")

  /** Sets the name unless there is one: PySpark names its actions. */
  def setForQuery(sc: SparkContext): Unit =
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
