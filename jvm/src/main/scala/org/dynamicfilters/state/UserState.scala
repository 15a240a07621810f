package org.dynamicfilters.state

import java.util.concurrent.CopyOnWriteArrayList

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.SQLExecution
import org.dynamicfilters.reasons.Reason
import org.dynamicfilters.user.{Follower, Generation}

/** The state of a user filter in one execution, on the driver. Thread-safe. */
final class UserState(val executionId: Long, val ref: UserRef)
    extends ShownFilter
    with PlanRun
    with Follower
    with AutoCloseable
    with Logging {
  @volatile private var adopted: Generation = ref.generation
  @volatile private var notInScan: Option[Reason] = None

  /** When the execution first used it, in milliseconds since 1970. */
  val sinceMillis: Long = System.currentTimeMillis()
  private val listeners = new CopyOnWriteArrayList[() => Unit]()

  /** The tightest generation that scans may use. Each adopted generation implies the previous one (contract 3). */
  def newest: Generation = adopted
  override def shown(column: String): String = newest.filter.shown(column, showsValues)

  override def offer(g: Generation): Unit = synchronized {
    if (ref.follows && !ended && g.number > adopted.number && tightens(g)) {
      adopted = g
      listeners.forEach(_())
    }
  }
  @volatile private var ended = false

  private def tightens(g: Generation): Boolean =
    try g.filter.implies(adopted.filter)
    catch {
      case NonFatal(e) =>
        logWarning(s"Dynamic filters: $g of filter '${g.name}' is not followed, comparing it failed", e)
        false
    }

  override def close(): Unit = {
    ended = true
    ref.generation.owner.foreach(_.unfollow(this))
  }

  /** Calls `f` after each adopted generation. `f` must be short and not fail. */
  def onTightened(f: () => Unit): Unit = listeners.add(f)

  /** Why no scan uses the filter, which is then tested above the scan only. */
  def reason: Option[Reason] = notInScan
  def addReason(why: Reason): Unit = synchronized(if (notInScan.isEmpty) notInScan = Some(why))
}

object UserState {
  private final case class Key(filterId: Long)

  /** The filter's state in an execution, made at the first call. Follows updates until the execution ends. */
  def of(executionId: Long, ref: UserRef): UserState =
    Executions.instance
      .attach(executionId, Key(ref.id)) {
        val state = new UserState(executionId, ref)
        if (ref.follows) ref.generation.owner.foreach(_.follow(state))
        state
      }
      .getOrElse(new UserState(executionId, ref))

  /** The existing state, or a new one if Spark runs the execution: scans of a plan that is executed again do not start
    * again, because Spark keeps their RDDs.
    */
  def ifRunning(executionId: Long, filterId: Long, ref: => Option[UserRef]): Option[UserState] =
    Executions.instance
      .find[UserState](executionId, Key(filterId))
      .orElse(ref.filter(_ => SQLExecution.getQueryExecution(executionId) != null).map(of(executionId, _)))
}
