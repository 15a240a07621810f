package org.dynamicfilters.state

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.sql.execution.dynamicfilters.{Setting, SettingsRegistry}
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.settings.Settings

/** Where tests may interfere with a running query. Each method here is the plain hand-over; the jar of faults overrides them. */
trait TestHooks {

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

  /** On the driver: what was injected and what came of it, for `dynamic_filter_counters()`. */
  def counters: Seq[(String, Long)] = Nil

  /** The application ends. */
  def stop(): Unit = ()
}

/** Makes hooks that inject faults. Its implementation is in a jar of its own, which Java's ServiceLoader finds. */
trait TestHooksProvider {

  /** On the driver, when it starts. */
  def onDriver(sc: SparkContext): TestHooks

  /** On an executor, when it starts. */
  def onExecutor(): TestHooks
}

object TestHooks {

  /** Whether the application was started to have faults injected. Spark refuses to change it in a session. */
  val Enabled: Setting[Boolean] = SettingsRegistry.staticBoolean(
    Settings.Prefix + "testing.faults.enabled",
    default = false,
    "For tests: whether sessions may have faults injected into their queries."
  )

  private object Plain extends TestHooks
  @volatile private var installed: TestHooks = Plain

  /** Of this process. */
  def current: TestHooks = installed

  /** @param hooks
    *   None for the plain ones
    */
  def install(hooks: Option[TestHooks]): Unit = {
    installed.stop()
    installed = hooks.getOrElse(Plain)
  }
}
