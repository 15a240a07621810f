package org.dynamicfilters.state

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.sql.execution.dynamicfilters.{Setting, SettingsRegistry}
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.settings.Settings

/** Hooks for tests that inject faults into running queries. The jar of faults overrides them. */
trait TestHooks {

  /** On the driver: an execution starts a scan. */
  def scanStarts(executionId: Long, conf: SQLConf): Unit = ()

  /** In a task, before its first row. */
  def taskStarts(context: TaskContext, executionId: Long): Unit = ()

  /** Receives a task's best keys. */
  def contributions(executionId: Long, shared: TopKState): ContributionSink = shared

  /** On the driver, receives the keys of a build side's partitions. */
  def keys(executionId: Long, conf: SQLConf, to: KeyOffers): KeyOffers = to

  /** An executor took over a bound from the cluster. */
  def adopted(executionId: Long, bound: TopKBound): Unit = ()

  /** An executor sends a message to the driver. */
  def tells(message: Array[Byte])(send: Array[Byte] => Unit): Unit = send(message)

  /** An executor sends a request to the driver. */
  def asks[A](message: Array[Byte])(ask: Array[Byte] => A): A = ask(message)

  /** The driver sends a message to an executor.
    *
    * @param send whether it could be sent
    * @param instead sends other bytes in its place
    */
  def pushes(peer: String, message: Array[Byte])(send: => Boolean)(instead: Array[Byte] => Boolean): Boolean = send

  /** The driver handles a message. */
  def handles(message: Array[Byte])(work: => Unit): Unit = work

  /** On the driver: counts of injected faults and of their effects, for `dynamic_filter_counters()`. */
  def counters: Seq[(String, Long)] = Nil

  /** The application ends. */
  def stop(): Unit = ()
}

/** Makes hooks that inject faults. Implemented in a separate jar, which Java's ServiceLoader finds. */
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

  /** The hooks of this process. */
  def current: TestHooks = installed

  /** @param hooks None for the plain ones */
  def install(hooks: Option[TestHooks]): Unit = {
    installed.stop()
    installed = hooks.getOrElse(Plain)
  }
}
