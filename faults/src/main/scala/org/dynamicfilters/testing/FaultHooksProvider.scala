package org.dynamicfilters.testing

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.dynamicfilters.{FaultsAccess, SparkAccess, UserError}
import org.dynamicfilters.state.{TestHooks, TestHooksProvider}

/** Provider that the plugin loads from the faults jar. */
final class FaultHooksProvider extends TestHooksProvider {
  override def onDriver(sc: SparkContext): TestHooks = {
    val faults = new DriverFaults(sc, new DriverLedger)
    FaultHooksProvider.driver = Some(faults)
    faults
  }

  override def onExecutor(): TestHooks =
    new FaultInjection(new RemoteLedger(FaultsAccess.connect(FaultInjection.EndpointName)), ownProcess = true)
}

object FaultHooksProvider {
  @volatile private[testing] var driver: Option[DriverFaults] = None

  /** On the driver. */
  def traced: Seq[TraceEvent] = driver.fold(Seq.empty[TraceEvent])(_.traced)

  /** The session setting's text as it is, if faults can be injected; what is wrong otherwise. */
  private[testing] def checked(spec: String): String =
    if (spec.trim.isEmpty) spec
    else if (driver.isEmpty) throw refused(s"only where the application was started with ${TestHooks.Enabled.key}=true")
    else FaultSpec.parse(spec).fold(why => throw refused(why), _ => spec)

  private def refused(why: String) =
    new UserError("DYNAMIC_FILTER_INVALID_SETTING", s"${FaultSettings.Spec.key}: $why")
}

/** Hooks of the driver. Counts the faults of all processes. */
private[testing] final class DriverFaults(sc: SparkContext, ledger: DriverLedger)
    extends FaultInjection(ledger, ownProcess = !sc.isLocal) {
  FaultSettings.Spec.key // registers it with Spark
  if (!sc.isLocal)
    FaultsAccess.serve(
      FaultInjection.EndpointName,
      new FaultsAccess.LedgerReceiver {
        override def note(counter: Int): Unit = ledger.note(FaultCounter(counter))
        override def claim(counter: Int, executionId: Long, most: Int): Boolean =
          ledger.claim(FaultCounter(counter), executionId, most)
        override def trace(event: String): Unit = TraceEvent.read(event).foreach(ledger.trace)
      }
    )
  sc.addSparkListener(new FaultListener(ledger))

  override def counters: Seq[(String, Long)] = {
    // What Spark's listeners counted is complete only then.
    SparkAccess.awaitListeners(sc, 5000)
    ledger.counters.all
  }

  def traced: Seq[TraceEvent] = ledger.traced

  override def stop(): Unit = {
    super.stop()
    if (FaultHooksProvider.driver.contains(this)) FaultHooksProvider.driver = None
  }
}
