package org.dynamicfilters.connect

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.connect.service.SparkListenerConnectSessionClosed
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.user.UserFilters

/** The Spark Connect sessions that have used user filters. Their filters are dropped when the session is closed. */
object ConnectSessions {

  /** Spark's session id, by Connect's user id and session id. */
  private val ids = new ConcurrentHashMap[(String, String), String]()

  def used(planner: SparkConnectPlanner): Unit =
    ids.put(
      (planner.sessionHolder.userId, planner.sessionHolder.sessionId),
      SparkAccess.sessionId(planner.session)
    )

  /** Whether the event says that a Connect session was closed. Compares the class name: a classic driver may lack Connect's classes. */
  def isClosed(event: SparkListenerEvent): Boolean =
    event.getClass.getName == "org.apache.spark.sql.connect.service.SparkListenerConnectSessionClosed"

  /** Takes an event for which [[isClosed]] holds. */
  def closed(event: SparkListenerEvent): Unit = event match {
    case e: SparkListenerConnectSessionClosed =>
      Option(ids.remove((e.userId, e.sessionId))).foreach(UserFilters.drop)
    case _ =>
  }
}
