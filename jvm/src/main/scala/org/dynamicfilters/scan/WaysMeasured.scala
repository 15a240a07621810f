package org.dynamicfilters.scan

import java.util.{LinkedHashMap, Map => JMap}
import java.util.concurrent.atomic.AtomicLong

/** What row groups of a scan took, read with their filter columns first and read plainly.
  *
  * Kept by a process between executions of the same scan: of a file with 19 row groups, six were read the dearer way in each
  * execution to find that out again. It changes what reading costs and not which rows there are (contract 8). Thread-safe.
  */
private[scan] final class WaysMeasured {
  import WaysMeasured._

  private val (ofFirst, ofOthers) = (new Both, new Both)
  private val decisions = new AtomicLong

  /** @param first
    *   of the first row groups of splits, or of all others
    */
  def of(first: Boolean): Both = if (first) ofFirst else ofOthers

  /** The number of the decision between the two that is made now, from 1. */
  def decide(): Long = decisions.incrementAndGet()

  /** What first passes with filters of this text found last. */
  def found(filters: String): Option[Found] = byFilters.synchronized(Option(byFilters.get(filters)))
  def keep(filters: String, found: Found): Unit = byFilters.synchronized(byFilters.put(filters, found))
  private val byFilters = new Recent[String, Found](MostFilters)

  /** The same of row groups that are read plainly, with a test of their rows and without. */
  val (tested, untested) = (new Measured, new Measured)
  private val tests = new AtomicLong
  def decideTest(): Long = tests.incrementAndGet()
}

private[scan] object WaysMeasured {

  /** What makes two scans the same. That two are taken for one costs speed only. */
  final case class Likeness(marker: String, schema: Int, options: String)

  /** @param touched
    *   bytes that are read after a first pass, as a share of those of the row group; an average
    * @param misses
    *   passes in a row that let too many rows through
    */
  final case class Found(touched: Double, misses: Int)

  /** Those that were used last. */
  private final class Recent[K, V](most: Int) extends LinkedHashMap[K, V](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[K, V]): Boolean = size > most
  }
  private val MostFilters = 16
  private val MostScans = 512
  private val scans = new Recent[Likeness, WaysMeasured](MostScans)

  /** Of earlier executions in this process, if there are any. */
  def of(scan: ScanSpec): WaysMeasured = scans.synchronized {
    val like = Likeness(scan.marker, scan.requiredSchema.hashCode, scan.options)
    scans.computeIfAbsent(like, _ => new WaysMeasured)
  }

  /** Of both ways. */
  final class Both {
    val (late, plain) = (new Measured, new Measured)
  }

  /** The least of the last measurements of one way. */
  final class Measured {
    private val recent = Array.fill(Remembered)(Double.MaxValue)
    private var samples = 0L
    def isKnown: Boolean = synchronized(samples >= MinSamples)
    def perRow: Double = synchronized(recent.min)
    def add(nanosPerRow: Double): Unit = synchronized {
      recent((samples % Remembered).toInt) = nanosPerRow
      samples += 1
    }
  }

  private val MinSamples = 2
  private val Remembered = 4
}
