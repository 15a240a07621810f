package org.dynamicfilters.lifecycle

import java.util.ServiceLoader

import scala.util.control.NonFatal

import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.dynamicfilters.{RpcAccess, SparkAccess}
import org.dynamicfilters.state.{TestHooks, TestHooksProvider}

/** Installs the fault hooks of the jar `faults` if the application was started with `testing.faults.enabled=true`. */
private[lifecycle] object TestHooksLoader extends Logging {
  def startDriver(sc: SparkContext): Unit = install(SparkAccess.confOf(sc))(_.onDriver(sc))

  /** On an executor. In local mode the driver's hooks also serve tasks. */
  def startExecutor(): Unit = if (!RpcAccess.isDriver) install(SparkEnv.get.conf)(_.onExecutor())

  private def install(conf: SparkConf)(hooks: TestHooksProvider => TestHooks): Unit =
    try
      TestHooks.install(Option.when(conf.getBoolean(TestHooks.Enabled.key, defaultValue = false)) {
        val providers = ServiceLoader.load(classOf[TestHooksProvider], getClass.getClassLoader)
        hooks(
          providers.findFirst
            .orElseThrow(() => new ClassNotFoundException("spark-dynamic-filters-faults is not among the jars"))
        )
      })
    catch { case NonFatal(e) => logWarning("Dynamic filters: no faults can be injected", e) }
}
