package org.dynamicfilters.state

import java.util.concurrent.{ConcurrentHashMap, CopyOnWriteArrayList}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.SQLExecution
import org.dynamicfilters.user.{Follower, Generation}

/** A user's filter in one execution, on the driver. Thread-safe. */
final class UserFilterState(val executionId: Long, val ref: UserRef) extends Follower with Logging {
  @volatile private var adopted: Generation = ref.generation
  @volatile private var columns = Vector.empty[String]
  @volatile private var notInScan: Option[String] = None
  private val listeners = new CopyOnWriteArrayList[() => Unit]()

  /** The tightest generation that scans may use: each one implies the one before, whatever the user does. */
  def newest: Generation = adopted

  override def offer(g: Generation): Unit =
    if (ref.follows && g.number > adopted.number && tightens(g)) {
      adopted = g
      listeners.forEach(_())
    }

  private def tightens(g: Generation): Boolean =
    try g.filter.implies(adopted.filter)
    catch {
      case NonFatal(e) =>
        logWarning(s"Dynamic filters: $g of filter '${g.name}' is not followed, comparing it failed", e)
        false
    }

  /** Calls `f` after each generation that is adopted; it must be short and not fail. */
  def onTightened(f: () => Unit): Unit = listeners.add(f)

  /** Columns of scans or rows that it filters, for reports. */
  def columnNames: Seq[String] = columns
  def addColumn(name: String): Unit = synchronized(if (!columns.contains(name)) columns :+= name)

  /** Whether plans and reports may show values. */
  @volatile var showValues: Boolean = true

  /** Why rows are only looked at above a scan. */
  def reason: Option[String] = notInScan
  def addReason(why: String): Unit = synchronized(if (notInScan.isEmpty) notInScan = Some(why))
}

/** The users' filters of the executions that run, on the driver. */
object UserFollowers {
  private val executions = new ConcurrentHashMap[Long, ConcurrentHashMap[Long, UserFilterState]]()

  /** The filter's state in an execution, made by whoever asks first. From then on it hears of updates. */
  def start(executionId: Long, ref: UserRef): UserFilterState = {
    if (!executions.containsKey(executionId)) sweep()
    executions
      .computeIfAbsent(executionId, _ => new ConcurrentHashMap[Long, UserFilterState]())
      .computeIfAbsent(
        ref.id,
        _ => {
          val state = new UserFilterState(executionId, ref)
          if (ref.follows) ref.generation.owner.foreach(_.follow(state))
          state
        }
      )
  }

  /** As [[start]], for a plan that is executed again: Spark keeps its RDD, so its scans are not started again. None if the
    * execution has ended.
    */
  def startIfRunning(executionId: Long, ref: UserRef): Option[UserFilterState] =
    Option.when(SQLExecution.getQueryExecution(executionId) != null)(start(executionId, ref))

  def find(executionId: Long, filterId: Long): Option[UserFilterState] =
    Option(executions.get(executionId)).flatMap(e => Option(e.get(filterId)))

  def ended(executionId: Long): Unit = Option(executions.remove(executionId)).foreach { states =>
    states.values.forEach(s => s.ref.generation.owner.foreach(_.unfollow(s)))
  }

  /** Spark drops events when listeners are slow: then nobody says that an execution ended. */
  private def sweep(): Unit = if (executions.size > FewExecutions)
    executions.keySet.asScala.filter(SQLExecution.getQueryExecution(_) == null).foreach(ended)

  private val FewExecutions = 100

  /** Executions whose filters are held; for tests. */
  def live: Int = executions.size
}
