package org.dynamicfilters.testing

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.dynamicfilters.FaultsAccess

/** Where injected faults are counted: on the driver, since a process may end by one. */
trait FaultLedger {
  def note(c: FaultCounter.Value): Unit

  /** Whether a fault may happen once more in this execution; counts it if so. Blocks until the driver has answered.
    *
    * @param most times in an execution
    */
  def claim(c: FaultCounter.Value, executionId: Long, most: Int): Boolean

  /** Keeps what happened when, for measurements. */
  def trace(event: TraceEvent): Unit
}

/** A TopK's bound on its way.
  *
  * @param what contributed | adopted
  * @param partition that the bound's last row is of
  * @param key the last row's key as text
  * @param micros since 1970
  */
final case class TraceEvent(
    executorId: String,
    executionId: Long,
    what: String,
    partition: Int,
    key: String,
    micros: Long
) {
  def text: String = Seq(executorId, executionId, what, partition, micros, key).mkString("|")
}

object TraceEvent {
  def read(text: String): Option[TraceEvent] = text.split("\\|", 6) match {
    case Array(executor, execution, what, partition, micros, key) =>
      for (e <- execution.toLongOption; p <- partition.toIntOption; m <- micros.toLongOption)
        yield TraceEvent(executor, e, what, p, key, m)
    case _ => None
  }
}

/** The driver's own. */
final class DriverLedger extends FaultLedger {
  val counters = new FaultCounters
  private val claims = mutable.HashMap.empty[(FaultCounter.Value, Long), Int]
  private val events = new ConcurrentLinkedQueue[TraceEvent]()
  private val held = new AtomicInteger

  override def note(c: FaultCounter.Value): Unit = counters.add(c)

  override def claim(c: FaultCounter.Value, executionId: Long, most: Int): Boolean = claims.synchronized {
    val before = claims.getOrElse((c, executionId), 0)
    before < most && {
      claims((c, executionId)) = before + 1
      note(c)
      true
    }
  }

  override def trace(event: TraceEvent): Unit = {
    events.add(event)
    if (held.incrementAndGet() > DriverLedger.MostEvents && events.poll() != null) held.decrementAndGet()
  }

  def traced: Seq[TraceEvent] = events.asScala.toSeq
}

object DriverLedger {
  private val MostEvents = 200000
}

/** An executor's way to the driver's. */
final class RemoteLedger(driver: FaultsAccess.DriverLedgerWire) extends FaultLedger {
  override def note(c: FaultCounter.Value): Unit = driver.note(c.id)
  override def claim(c: FaultCounter.Value, executionId: Long, most: Int): Boolean =
    driver.claim(c.id, executionId, most)
  override def trace(event: TraceEvent): Unit = driver.trace(event.text)
}
