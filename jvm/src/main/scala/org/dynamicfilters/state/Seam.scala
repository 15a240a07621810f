package org.dynamicfilters.state

import org.apache.spark.TaskContext
import org.apache.spark.sql.internal.SQLConf

/** Where tests may interfere with a running query; each method here is the plain hand-over. Only the plugin, when it starts,
  * puts another one in its place (`org.dynamicfilters.testing`).
  */
trait Seam {

  /** On the driver: an execution starts a scan. */
  def scanStarts(executionId: Long, conf: SQLConf): Unit = ()

  /** In a task, before its first row. */
  def taskStarts(context: TaskContext, executionId: Long): Unit = ()

  /** Where a task's best keys go. */
  def contributions(executionId: Long, shared: TopKState): ContributionSink = shared

  /** On the driver, where the keys of a build side's partitions go. */
  def keys(executionId: Long, conf: SQLConf, to: KeyOffers): KeyOffers = to

  /** An executor took over a bound of the cluster's. */
  def adopted(executionId: Long, bound: TopKBound): Unit = ()

  /** An executor tells the driver. */
  def tells(message: Array[Byte])(send: Array[Byte] => Unit): Unit = send(message)

  /** An executor asks the driver. */
  def asks[A](message: Array[Byte])(ask: Array[Byte] => A): A = ask(message)

  /** The driver tells an executor.
    *
    * @param send
    *   whether it could be sent
    * @param instead
    *   sends other bytes in its place, without what goes beside them
    */
  def pushes(peer: String, message: Array[Byte])(send: => Boolean)(instead: Array[Byte] => Boolean): Boolean = send

  /** The driver's work for one message. */
  def handles(message: Array[Byte])(work: => Unit): Unit = work
}

object Seam {
  private object Plain extends Seam
  @volatile private var installed: Seam = Plain

  /** Of this process. */
  def current: Seam = installed

  /** @param seam
    *   None for the plain one
    */
  def install(seam: Option[Seam]): Unit = installed = seam.getOrElse(Plain)
}
