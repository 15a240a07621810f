package org.dynamicfilters.scan

/** Decides for a scan, from what its row groups cost so far, whether to read filter columns first.
  *
  * Late materialization wins where whole pages are left out, and may lose where the surviving rows are scattered over all
  * pages: then everything is decompressed all the same and the filter columns twice. No formula over bytes told the two apart
  * reliably, so where pages are not left out, time decides: each way is measured per row, the cheaper one is taken, and the
  * other is tried again now and then, because a bound that tightens changes the picture.
  *
  * Shared by the tasks of a process, since a task may see one row group only. Thread-safe.
  *
  * @param giveUpSelectivity
  *   a first pass that lets more than this share of rows through counts as lost, whatever it cost; 1 never gives up
  */
final class LateMaterializationAdvisor(giveUpSelectivity: Double) {
  import LateMaterializationAdvisor._

  private val neverGivesUp = giveUpSelectivity >= 1
  private val late = new Cost
  private val plain = new Cost
  private var touched = 0.0
  private var judged = 0L
  private var misses = 0
  private var early = 0
  private var decisions = 0L

  /** Whether to read filter columns first in the next row group. */
  def prefersLate(): Boolean = synchronized {
    decisions += 1
    if (judged == 0 || neverGivesUp) true
    else if (misses >= MissesToGiveUp) decisions % RetryEvery == 0
    else if (touched < ClearlyGood) true
    else if (plain.samples < MinSamples) false
    else {
      val better = late.perRow < plain.perRow * Margin
      if (decisions % RetryEvery == 0) !better else better
    }
  }

  /** Whether the last judgement stopped late materialization; for reports. */
  def gaveUp: Boolean = synchronized {
    !neverGivesUp && (misses >= MissesToGiveUp || (touched >= ClearlyGood && plain.samples > 0))
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
    }
  }

  /** What a row group cost from the decision to the next one, its way through the operators above included. */
  def spent(late: Boolean, rows: Long, nanos: Long): Unit = synchronized {
    if (rows > 0) (if (late) this.late else plain).add(nanos.toDouble / rows)
  }
}

object LateMaterializationAdvisor {

  /** Below this share of bytes read there is no doubt. */
  private val ClearlyGood = 0.5
  private val MissesToGiveUp = 2
  private val EarlyForgiven = 2
  private val MinSamples = 2

  /** Late materialization must be cheaper by this factor: it is the riskier way. */
  private val Margin = 0.95
  private val RetryEvery = 16L

  /** Of a new sample in the moving averages. */
  private val Weight = 0.25

  private final class Cost {
    var samples = 0L
    var perRow = 0.0
    def add(nanosPerRow: Double): Unit = {
      perRow = if (samples == 0) nanosPerRow else perRow + (nanosPerRow - perRow) * Weight
      samples += 1
    }
  }
}
