package org.dynamicfilters.state

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicReference

import scala.annotation.tailrec
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.dynamicfilters.filter.{FilterCodec, KeyLimits, KeyPartial}
import org.dynamicfilters.reasons.{Reason, Reasons}

/** The keys that the partitions of one build side report, and the filter that is built from them. Keeps the phase.
  *
  * All or nothing (contract 2): there is no filter before every partition has reported. A second report of a partition,
  * after a retry, replaces the first.
  */
private[state] final class KeyReports(filterId: Long, nullsMatch: Boolean, limits: KeyLimits) extends Logging {
  import JoinPhase._

  private val partials = new ConcurrentHashMap[Int, Array[Byte]]()
  private val current = new AtomicReference[JoinPhase](Registered)
  @volatile private var buildsLarge = false

  def phase: JoinPhase = current.get

  /** The build side starts. Returns whether this is its first start. */
  def start(partitions: Int): Boolean = current.compareAndSet(Registered, Building(partitions))

  /** Stores a report. Returns false if reports do not matter any more, because a stage runs again.
    *
    * Takes no lock, because building holds it for long.
    */
  def put(partition: Int, encoded: Array[Byte]): Boolean = !phase.isDone && {
    partials.put(partition, encoded)
    // The filter may be done meanwhile.
    if (phase.isDone) partials.clear()
    true
  }

  /** If all partitions have reported, marks that. Returns whether this call did. */
  @tailrec
  def complete(): Boolean = phase match {
    case now @ Building(partitions, reports) if reports != Reports.All && partials.size >= partitions =>
      current.compareAndSet(now, Building(partitions, Reports.All)) || complete()
    case _ => false
  }

  /** The build side has ended. Reports that are missing will not come. */
  def end(): Unit = current.updateAndGet {
    case Building(n, Reports.Coming) => Building(n, Reports.Missing)
    case other => other
  }

  /** Disables the filter, unless all keys are there. */
  def disable(reason: Reason): Unit = {
    val now = current.updateAndGet {
      case Building(_, Reports.Missing) => Disabled(Reasons.Incomplete)
      case other => if (other.hasAllKeys || other.isDone) other else Disabled(reason)
    }
    if (now.isDisabled) partials.clear()
  }

  private final val SmallBytes = 256 * 1024L

  /** Whether building the filter takes long. */
  def isLarge: Boolean =
    buildsLarge || partials.values.stream.mapToLong(_.length.toLong).sum > SmallBytes

  /** Number of partitions whose keys are held. */
  def size: Int = partials.size

  private def isToBuild: Boolean = phase.hasAllKeys && !phase.isDone

  /** Builds the filter if all keys are there. Returns it if this call did. */
  def build(): Option[Ready] = if (!isToBuild) None
  else
    synchronized {
      val now = Option.when(isToBuild) {
        buildsLarge = isLarge
        built()
      }
      now.foreach { phase =>
        current.set(phase)
        // After the phase has changed; see `put`.
        partials.clear()
      }
      now.collect { case r: Ready => r }
    }

  private def built(): JoinPhase =
    try {
      // One by one, to free the bytes of each as its keys are decoded.
      val decoded =
        partials.keySet.toArray(Array.empty[Integer]).toSeq.map(i => KeyPartial.decode(partials.remove(i)))
      val (undecodable, parts) = decoded.partitionMap(identity)
      undecodable.headOption match {
        case Some(reason) => Disabled(reason)
        case None =>
          val b = KeyPartial.build(parts, limits, nullsMatch)
          Ready(b.filter, FilterCodec.sizeOf(b.filter).toInt, b.reduced, b.distinct)
      }
    } catch {
      case NonFatal(e) =>
        logWarning(s"Dynamic filters: filter $filterId could not be built, rows pass", e)
        Disabled(Reasons.Failed(e, "building the filter"))
    }
}

/** The keys of one partition of a build side, encoded. They go to the driver by [[ResultItems]].
  *
  * @param outgrown whether there were too many keys, so that scans should not wait for the filter
  */
final case class KeyContribution(partition: Int, encoded: Array[Byte], outgrown: Boolean)

object KeyContribution {

  /** Bytes that all partitions together may send for one filter: all filters of an exchange share a small part of
    * Spark's limit for task results. The part is smaller for a broadcast, whose rows are in the results too: Spark
    * fails a query above the limit.
    *
    * @param maxResultSize `spark.driver.maxResultSize` in bytes, 0 for no limit
    * @param filters number of filters that are collected below the exchange, at least one
    */
  def budget(maxResultSize: Long, broadcast: Boolean, filters: Int): Long =
    if (maxResultSize <= 0) Long.MaxValue
    else maxResultSize / (if (broadcast) OfBroadcast else OfMapTasks) / filters

  private val OfBroadcast = 128
  private val OfMapTasks = 16
}

/** Receives the keys of a build side's partitions on the driver: [[JoinState]]. */
trait KeyOffers {

  /** Takes a partition's keys, see [[KeyContribution]]. Replaces an earlier report of the partition. Only stores,
    * because Spark's scheduler calls it.
    */
  def offer(partition: Int, encoded: Array[Byte], outgrown: Boolean): Unit
}
