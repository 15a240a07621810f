package org.dynamicfilters.connect

import java.util.concurrent.ConcurrentHashMap

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

  def closed(e: SparkListenerConnectSessionClosed): Unit =
    Option(ids.remove((e.userId, e.sessionId))).foreach(UserFilters.drop)
}
