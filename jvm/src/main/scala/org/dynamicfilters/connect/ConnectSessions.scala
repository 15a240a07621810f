package org.dynamicfilters.connect

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.connect.service.SparkListenerConnectSessionClosed
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.user.UserFilterCommands

/** Spark Connect's sessions that have filters of their own: these go when the session is closed. */
object ConnectSessions {

  /** By Connect's name of a user and of a session, Spark's. */
  private val ids = new ConcurrentHashMap[(String, String), String]()

  def used(planner: SparkConnectPlanner): Unit =
    ids.put(
      (planner.sessionHolder.userId, planner.sessionHolder.sessionId),
      SparkAccess.sessionId(planner.session)
    )

  /** Whether Connect tells that a session was closed. By name: a classic driver need not have Connect's classes. */
  def isClosed(event: SparkListenerEvent): Boolean =
    event.getClass.getName == "org.apache.spark.sql.connect.service.SparkListenerConnectSessionClosed"

  /** Of an event for which [[isClosed]] holds. */
  def closed(event: SparkListenerEvent): Unit = event match {
    case e: SparkListenerConnectSessionClosed =>
      Option(ids.remove((e.userId, e.sessionId))).foreach(UserFilterCommands.sessionEnded)
    case _ =>
  }
}
