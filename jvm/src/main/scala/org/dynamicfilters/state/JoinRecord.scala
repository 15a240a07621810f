package org.dynamicfilters.state

import java.util.concurrent.atomic.{AtomicLong, AtomicReference}

/** What reports show of a join filter beside its phase. Thread-safe. */
final class JoinRecord extends ShownFilter {
  private val seen = new AtomicReference(FilterTimes(registered = System.currentTimeMillis()))
  private val waited = new AtomicLong
  @volatile private var startedMillis = 0L
  @volatile private var metrics: JoinRecord.Metrics = _

  /** Sets the receiver of metrics, which must not fail. The first call counts, as do the keys of the first start. */
  def setMetrics(m: JoinRecord.Metrics): Unit = synchronized(if (metrics == null) metrics = m)

  /** The build side starts; the first start counts. */
  private[state] def started(): Unit = if (startedMillis == 0L) startedMillis = System.currentTimeMillis()

  /** The last partition has reported. */
  private[state] def ready(): Unit = seen.updateAndGet(_.copy(ready = System.currentTimeMillis()))

  private[state] def built(f: JoinPhase.Ready): Unit = if (metrics != null) metrics.complete(f.bytes, f.distinct)

  /** A scan waited for the filter. Its own tap may differ from that of the filter whose keys count. */
  private[state] def waited(millis: Long, tapped: JoinRecord): Unit = {
    waited.accumulateAndGet(millis, (a: Long, b: Long) => math.max(a, b))
    if (tapped.metrics != null) tapped.metrics.waited(millis)
  }

  /** A scan starts with the complete filter. */
  def usedFromStart(): Unit =
    seen.updateAndGet(t => if (t.used > 0) t else t.copy(used = System.currentTimeMillis()))

  /** The longest wait of a scan for it. */
  def waitedMillis: Long = waited.get

  /** Time from the start of the build side to its last report; None before. */
  def readyMillis: Option[Long] =
    Option.when(startedMillis > 0 && times.ready > 0)(math.max(0L, times.ready - startedMillis))

  def times: FilterTimes = seen.get
}

object JoinRecord {

  /** Receives what a tap shows of its filter as metrics, on the driver. */
  trait Metrics {

    /** @param distinct number of keys that pass, if known */
    def complete(bytes: Int, distinct: Option[Long]): Unit

    /** A scan waited this long. */
    def waited(millis: Long): Unit
  }
}

/** Times of a filter for reports, in milliseconds since 1970; 0 if it has not happened, or is unknown.
  *
  * @param registered the filter was planned, or its producer started
  * @param ready a join's filter was complete, a TopK had its first bound
  * @param used the first scan started with the filter
  */
final case class FilterTimes(registered: Long = 0, ready: Long = 0, used: Long = 0)
