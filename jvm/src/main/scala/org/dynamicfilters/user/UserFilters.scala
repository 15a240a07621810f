package org.dynamicfilters.user

import java.lang.ref.{ReferenceQueue, WeakReference}

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.filter.KeyDomain

/** The filters that users made, by session and name; on the driver. Thread-safe.
  *
  * Filters go with their session: when nobody holds it any more, or its client closes it.
  */
object UserFilters {
  import UserFilterException.Code

  private val gone = new ReferenceQueue[SparkSession]

  private final class OfSession(val id: String, session: SparkSession) extends WeakReference(session, gone) {
    val open = mutable.LinkedHashMap.empty[String, UserFilter]

    /** Types of closed ones by name, for messages. */
    val closed = new java.util.LinkedHashMap[String, String]() {
      override def removeEldestEntry(e: java.util.Map.Entry[String, String]): Boolean = size > MostClosed
    }
  }
  private val MostClosed = 1000

  private val sessions = mutable.HashMap.empty[String, OfSession]
  @volatile private var used = false

  /** Whether a filter was ever made in this process: spares all others the search for them in their plans. */
  def everUsed: Boolean = used

  /** @param token
    *   see [[UserFilter]]. A second command with the same token is the first one, sent again
    */
  def create(session: SparkSession, name: String, domain: KeyDomain, token: String): Unit = synchronized {
    sweep()
    val id = SparkAccess.sessionId(session)
    val own = sessions.getOrElseUpdate(id, new OfSession(id, session))
    own.open.get(name) match {
      case Some(f) if f.token == token =>
      case Some(f) =>
        throw UserFilterException.of(Code.Duplicate, name, f.typeText, "there is one already; close it first")
      case None =>
        used = true
        own.closed.remove(name)
        own.open(name) = UserFilter(name, domain, token, session.sparkContext)
    }
  }

  /** The open filter of this name, or an error that says why there is none. */
  def open(sessionId: String, name: String): UserFilter = synchronized {
    sweep()
    sessions.get(sessionId).flatMap(_.open.get(name)).getOrElse(throw missing(sessionId, name))
  }

  private def missing(sessionId: String, name: String): UserFilterException =
    sessions.get(sessionId).flatMap(s => Option(s.closed.get(name))) match {
      case Some(dataType) => UserFilterException.closed(name, dataType)
      case None => UserFilterException.notFound(name)
    }

  /** The one that a client means, by name and token. */
  def find(sessionId: String, name: String, token: String): UserFilter = {
    val f = open(sessionId, name)
    if (f.token != token) throw UserFilterException.closed(name, f.typeText)
    f
  }

  def close(sessionId: String, name: String, token: String): Unit = synchronized {
    val f = find(sessionId, name, token)
    val own = sessions(sessionId)
    own.open.remove(name)
    own.closed.put(name, f.typeText)
  }

  /** Of a session, in the order in which they were made. */
  def of(sessionId: String): Seq[UserFilter] = synchronized {
    sweep()
    sessions.get(sessionId).fold(Seq.empty[UserFilter])(_.open.values.toSeq)
  }

  /** What is in force under a name; None if there is no such filter. */
  def current(sessionId: String, name: String): Option[Generation] = synchronized {
    sessions.get(sessionId).flatMap(_.open.get(name)).map(_.current)
  }

  /** A session has ended. */
  def drop(sessionId: String): Unit = synchronized(sessions.remove(sessionId))

  /** The application has ended. */
  def clear(): Unit = synchronized(sessions.clear())

  private def sweep(): Unit = Iterator.continually(gone.poll()).takeWhile(_ != null).foreach {
    case s: OfSession => sessions.remove(s.id)
    case _ =>
  }

  /** Filters held; for tests. */
  def live: Int = synchronized { sweep(); sessions.values.map(_.open.size).sum }

}
