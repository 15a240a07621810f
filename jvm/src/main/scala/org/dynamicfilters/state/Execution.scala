package org.dynamicfilters.state

import java.util.concurrent.atomic.AtomicLong

import org.dynamicfilters.filter.ValueFilter

/** The one owner of all that a process holds for a SQL execution (contract 6). */
final class Execution private[state] (val id: Long, link: => Option[ClusterLink], now: Long) extends Holder {
  import Execution._

  private[state] val tasks = new AtomicLong
  @volatile private[state] var lastUsed: Long = now

  /** The shared bound of a TopK.
    *
    * @param shares whether the whole cluster shares it, not only this process
    * @return None if the execution has ended: then rows pass
    */
  def topK(name: FilterName, spec: TopKSpec, shares: Boolean = true): Option[TopKState] =
    attach(name)(link.filter(_ => shares).fold(new TopKState(spec))(_.topK(id, name, spec)))

  /** The filter that the driver has sent since the scan started: of a join that was not complete then, or of a user
    * whose updates the scan follows. None until the driver sends one. The first call subscribes to it.
    */
  def lateFilter(filterId: Long): Option[ValueFilter] = link.flatMap { l =>
    var isNew = false
    val late = attach(AskedFor(filterId)) { isNew = true; new SubscribedFilter }
    if (isNew) l.subscribe(id, FilterName(filterId, 0))
    late.flatMap(_.filter)
  }
}

private[state] object Execution {
  final case class AskedFor(filterId: Long)
  final case class Contents(name: FilterName)
}

/** A filter that the driver was asked for: a join's, or a user's that is updated while scans run. */
final class SubscribedFilter {
  @volatile private var newest: NamedFilter = _
  def filter: Option[ValueFilter] = Option(newest).map(_.filter)

  /** Takes a generation, unless a newer one has come before. */
  def offer(f: NamedFilter): Unit = synchronized(if (newest == null || f.name.run > newest.name.run) newest = f)
}

/** What a process asks of the cluster for its executions. All methods return at once. */
trait ClusterLink {

  /** The process begins to hold something of an execution, and must be told of its end. */
  def joined(executionId: Long): Unit

  /** The state of a TopK that the cluster shares. Asks the driver for its current and all later bounds. */
  def topK(executionId: Long, name: FilterName, spec: TopKSpec): TopKState

  /** Asks the driver for the current and all later generations of a filter. */
  def subscribe(executionId: Long, name: FilterName): Unit
}
