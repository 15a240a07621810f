package org.dynamicfilters.user

import java.lang.ref.{ReferenceQueue, WeakReference}

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.dynamicfilters.filter.KeyDomain

/** All user filters, by session and name. On the driver. Thread-safe.
  *
  * The filters of a session are dropped when the session is garbage-collected or its client closes it.
  */
object UserFilters {
  import UserFilterException.Code

  private val gone = new ReferenceQueue[SparkSession]

  private final class SessionFilters(val id: String, session: SparkSession) extends WeakReference(session, gone) {
    val open = mutable.LinkedHashMap.empty[String, UserFilter]

    /** Types of closed filters by name, for error messages. */
    val closed = new java.util.LinkedHashMap[String, String]() {
      override def removeEldestEntry(e: java.util.Map.Entry[String, String]): Boolean = size > MostClosed
    }
  }
  private val MostClosed = 1000

  private val sessions = mutable.HashMap.empty[String, SessionFilters]
  @volatile private var used = false

  /** Whether a filter was ever made in this process. If not, plans are not searched for filters. */
  def everUsed: Boolean = used

  /** @param token see [[UserFilter]]. A second command with the same token repeats the first one and changes nothing */
  def create(session: SparkSession, name: String, domain: KeyDomain, token: String): Unit = synchronized {
    sweep()
    val id = SparkAccess.sessionId(session)
    val own = sessions.getOrElseUpdate(id, new SessionFilters(id, SparkAccess.owner(session)))
    own.open.get(name) match {
      case Some(f) if f.token == token =>
      case Some(f) =>
        throw UserFilterException.of(Code.Duplicate, name, f.typeText, "there is one already; close it first")
      case None =>
        used = true
        own.closed.remove(name)
        own.open(name) = new UserFilter(name, domain, token, session.sparkContext)
    }
  }

  /** The open filter of this name. Throws an error that says why there is none. */
  def open(sessionId: String, name: String): UserFilter = synchronized {
    sweep()
    sessions.get(sessionId).flatMap(_.open.get(name)).getOrElse(throw missing(sessionId, name))
  }

  private def missing(sessionId: String, name: String): UserFilterException =
    sessions.get(sessionId).flatMap(s => Option(s.closed.get(name))) match {
      case Some(dataType) => UserFilterException.closed(name, dataType)
      case None => UserFilterException.notFound(name)
    }

  /** The open filter with this name and token. Throws an error that says why there is none. */
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

  /** The open filters of a session, in the order of their creation. */
  def forSession(sessionId: String): Seq[UserFilter] = synchronized {
    sweep()
    sessions.get(sessionId).fold(Seq.empty[UserFilter])(_.open.values.toSeq)
  }

  /** The current generation of the open filter of this name, if there is one. */
  def current(sessionId: String, name: String): Option[Generation] = synchronized {
    sessions.get(sessionId).flatMap(_.open.get(name)).map(_.current)
  }

  /** Drops the filters of a session. */
  def drop(sessionId: String): Unit = synchronized(sessions.remove(sessionId))

  /** Drops all filters, at the end of the application. */
  def clear(): Unit = synchronized(sessions.clear())

  private def sweep(): Unit = Iterator.continually(gone.poll()).takeWhile(_ != null).foreach {
    case s: SessionFilters => sessions.remove(s.id)
    case _ =>
  }
}
