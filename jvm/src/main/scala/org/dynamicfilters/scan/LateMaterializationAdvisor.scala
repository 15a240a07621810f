package org.dynamicfilters.scan

import org.dynamicfilters.scan.WaysMeasured.Found
import org.dynamicfilters.state.{Budget, Cost}

/** Decides for a scan, from what its row groups cost so far, whether to read filter columns first.
  *
  * Late materialization wins where whole pages are left out, and may lose where the surviving rows are scattered over all
  * pages: then everything is decompressed all the same and the filter columns twice. No formula over bytes told the two apart
  * reliably, so where pages are not left out, time decides: each way is measured per row, the cheaper one is taken, and the
  * other is tried again now and then, because a bound that tightens changes the picture.
  *
  * Of the last measurements the least counts: what adds to them (code that is not compiled yet, another task on the core)
  * says nothing of the way. The first row group of a split also pays for what is opened and made with it, here and above the
  * scan, two to ten times what the next one takes; as it was always read late, that once stood against late
  * materialization. It is compared with its like only.
  *
  * Shared by the tasks of a process, since a task may see one row group only. Thread-safe.
  *
  * @param giveUpSelectivity
  *   a first pass that lets more than this share of rows through counts as lost, whatever it cost; 1 never gives up
  * @param ways
  *   what earlier executions of the same scan measured
  * @param byTime
  *   false where every attempt has to decide the same: then only by what row groups hold
  */
final class LateMaterializationAdvisor(
    giveUpSelectivity: Double,
    ways: WaysMeasured = new WaysMeasured,
    byTime: Boolean = true
) {
  import LateMaterializationAdvisor._

  private val neverGivesUp = giveUpSelectivity >= 1
  private var touched = 0.0
  private var judged = 0L
  private var misses = 0
  private var early = 0

  // Of what reading late took more than reading plainly.
  private val budget = new Budget
  private var filters = ""
  private var recalled = false

  /** Whether to read filter columns first in the next row group.
    *
    * @param first
    *   whether nothing of its split has been measured yet
    * @param text
    *   of the filters, by which another execution with the same ones is known; empty if they are not to be known
    */
  def prefersLate(first: Boolean, text: => String = ""): Boolean = synchronized {
    if (judged == 0) recall(text)
    val isRetry = ways.decide() % (if (recalled) RetryKnownEvery else RetryEvery) == 0
    isTrial = isRetry
    val costs = ways.of(first)
    // Of other filters than before at least one: what they leave out is not known.
    if (judged == 0 || neverGivesUp) true
    else if (misses >= MissesToGiveUp) isRetry && !(byTime && budget.isOver)
    else if (!byTime) true
    else if (touched < ClearlyGood || !costs.late.isKnown) true
    else if (!costs.plain.isKnown) false
    else if (isCheaper(costs)) !isRetry
    else isRetry && !budget.isOver
  }

  /** Whether to read a row group plainly though its columns were read first: rows that pass are in most of its pages, and to read
    * such row groups plainly was cheaper.
    *
    * The first row group of an execution has a pass whatever was measured before, because a filter may leave out other rows than
    * the last one did. Of a TopK by a key with two values half of the rows passed, every second one: Spark's reader spent 0.1 s
    * of 7 on ranges of one row, and the garbage collector 0.2 s on what they take.
    *
    * @param byteShare
    *   see `judge`
    */
  def prefersPlainAfterPass(first: Boolean, byteShare: Double): Boolean = synchronized {
    !neverGivesUp && (if (byTime) byteShare >= ClearlyGood && costsMore(ways.of(first)) else byteShare >= NearlyAll)
  }

  /** Whether the last decision was made to measure the dearer way again. Another task may have made it meanwhile. */
  def lastIsTrial: Boolean = synchronized(isTrial)
  private var isTrial = false

  private def recall(text: String): Unit = {
    filters = text
    ways.found(text).foreach { f =>
      touched = f.touched
      misses = f.misses
      judged = 1
      recalled = true
    }
  }

  private def isCheaper(costs: WaysMeasured.Both): Boolean = costs.late.perRow < costs.plain.perRow * Margin

  private def costsMore(c: WaysMeasured.Both): Boolean = c.late.isKnown && c.plain.isKnown && !isCheaper(c)

  /** Whether the last judgement stopped late materialization; for reports. */
  def gaveUp: Boolean = synchronized {
    val scattered = byTime && touched >= ClearlyGood
    !neverGivesUp && (misses >= MissesToGiveUp || scattered && (costsMore(ways.of(first = true)) || costsMore(
      ways.of(first = false)
    )))
  }

  /** What a first pass found.
    *
    * @param rowShare
    *   rows that passed, 0 to 1
    * @param byteShare
    *   bytes of the row group that are read after it, 0 to 1
    * @param selects
    *   whether there was anything yet that could have stopped a row: a pass before the first bound says nothing of the next
    *   one, so a few of them are forgiven
    */
  def judge(rowShare: Double, byteShare: Double, selects: Boolean): Unit = synchronized {
    if (!selects && rowShare > giveUpSelectivity && early < EarlyForgiven) early += 1
    else {
      touched = if (judged == 0) byteShare else touched + (byteShare - touched) * Weight
      judged += 1
      misses = if (rowShare > giveUpSelectivity) misses + 1 else 0
      if (filters.nonEmpty) ways.keep(filters, Found(touched, misses))
    }
  }

  /** What a row group cost from the decision to the next one, its way through the operators above included. */
  def spent(late: Boolean, first: Boolean, rows: Long, nanos: Long): Unit = synchronized {
    if (rows > 0) {
      val costs = ways.of(first)
      val more = if (late && costs.plain.isKnown) nanos - (costs.plain.perRow * rows).toLong else 0L
      budget.add(Cost(math.max(more, 0L), math.max(-more, 0L), nanos))
      (if (late) costs.late else costs.plain).add(nanos.toDouble / rows)
    }
  }
}

object LateMaterializationAdvisor {

  /** Below this share of bytes read there is no doubt. */
  private val ClearlyGood = 0.5

  /** Above this share of bytes read nothing is won, whatever a pass costs. */
  private val NearlyAll = 0.9
  private val MissesToGiveUp = 2
  private val EarlyForgiven = 2

  /** Late materialization must be cheaper by this factor: it is the riskier way. */
  private val Margin = 0.95
  private val RetryEvery = 16L

  /** With the same filters as before only files may have changed. */
  private val RetryKnownEvery = 128L

  /** Of a new judgement in the moving averages. */
  private val Weight = 0.25
}
