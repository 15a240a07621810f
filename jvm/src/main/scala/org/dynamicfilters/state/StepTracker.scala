package org.dynamicfilters.state

/** Decides whether one step of a scan pays: a look into a dictionary or a Bloom filter for one filter, a first pass
  * over the columns of all filters, or a test of rows that were read by one filter.
  *
  * A step is disabled while one of these holds:
  *   - The step let more than `giveUp` of the rows through, twice in a row.
  *   - The step took more time than it saved plus a small share of the scan's work ([[StepTracker.ShareOfWork]]). The
  *     scan goes on working, so such a step is taken again later. Only tests of rows have this rule.
  *   - Rows took longer with the step than without it. Only callers that measure both ways have this rule.
  *
  * A disabled step is tried again after 16 chances to take it. Each try in vain doubles that number. If both ways are
  * measured, an active step is left out as often.
  *
  * Callers measure; the class has no clock. The advice changes what reading costs and never which rows there are; see
  * [[Snapshots]]. The tasks of an execution share a tracker in a process. Thread-safe.
  *
  * @param giveUp the largest share of rows that may pass; at 1 the step is taken at any cost
  */
final class StepTracker(giveUp: Double) {
  import StepTracker._

  private var misses = 0
  // Since the last result.
  private var rows, passed = 0L
  private var isInDoubt = false
  private var spent, saved, work = 0L
  private val withStep, without = new Fastest
  private var (asked, pause) = (0, FirstPause)

  /** For tests. */
  private[dynamicfilters] def isDisabled: Boolean = synchronized(!pays)

  /** Whether to take the step now. */
  def takesNext(): Boolean = synchronized {
    val usual = pays && !lacksOtherWay
    val mayDiffer = giveUp < 1 && !isOverBudget && (!pays || isCompared)
    if (mayDiffer) asked += 1
    if (asked < pause) usual
    else {
      asked = 0
      pause = math.min(pause * 2, LongestPause)
      !usual
    }
  }

  /** Records what the step cost, and work with or without it, in nanoseconds. Returns whether that disabled it.
    *
    * @param spent on the step itself
    * @param saved estimate of what would have been spent without it
    * @param work of the scan and all that runs above it in the same tasks, the step included
    */
  def recordCost(spent: Long, saved: Long, work: Long): Boolean = changing {
    // Recent figures count most: a table may be clustered.
    if (this.work > MuchWork) { this.spent /= 2; this.saved /= 2; this.work /= 2 }
    this.spent += spent
    this.saved += saved
    this.work += work
  }

  /** Records the rows that the step decided about, and those that passed. Returns whether that disabled the step. */
  def recordRows(decided: Long, passing: Long): Boolean = changing {
    rows += decided
    passed += passing
    // Results of small partitions add up to one, so that so many rows may disable the step.
    if (rows >= FewRows / Misses) {
      misses = if (passed > rows * giveUp) misses + 1 else 0
      rows = 0
      passed = 0
    }
  }

  /** Records which share of the bytes is read after the step. If that is most of them, both ways are compared. */
  def recordBytesLeft(share: Double): Boolean = changing { isInDoubt = share >= HalfOfBytes }

  /** Records what rows took, with the step or without it. Returns whether that disabled the step. */
  def recordTime(withStep: Boolean, rows: Long, nanos: Long): Boolean =
    rows >= FewRows && changing((if (withStep) this.withStep else without).add(nanos.toDouble / rows))

  private def isOverBudget: Boolean = spent > Grace + saved + work * ShareOfWork
  private def lacksOtherWay: Boolean = giveUp < 1 && isInDoubt && withStep.isKnown && !without.isKnown
  private def isCompared: Boolean = isInDoubt && withStep.isKnown && without.isKnown
  private def isSlower: Boolean = isCompared && withStep.perRow >= without.perRow * Margin
  private def pays: Boolean = giveUp >= 1 || (misses < Misses && !isOverBudget && !isSlower)

  /** Returns whether the change disabled the step. */
  private def changing(change: => Unit): Boolean = synchronized {
    val before = pays
    change
    if (pays != before) {
      asked = 0
      pause = FirstPause
    }
    before && !pays
  }
}

object StepTracker {

  /** Results in a row that let most rows through, and measurements that make a time known. */
  private val Misses = 2

  /** Fewer rows say nothing. */
  val FewRows = 1000L

  /** Chances after which a disabled step is tried again. */
  val FirstPause = 16
  private val LongestPause = FirstPause * FirstPause

  /** What a useless step may cost at most. */
  val ShareOfWork = 0.03

  /** Nanoseconds. Less says nothing yet: code that is not compiled, another task on the core. */
  val Grace = 10L * 1000 * 1000
  private val MuchWork = 200 * Grace

  /** A step must be faster by this factor. Two measurements of one step differ by up to it. TPC-DS q03 has 0.8. */
  private val Margin = 0.93

  /** If a first pass leaves less than this share of the bytes, there is no doubt that it pays. */
  private val HalfOfBytes = 0.5

  /** The fastest of the last measurements. Slower ones include code that is not compiled yet, or other tasks. */
  private final class Fastest {
    private val recent = Array.fill(2 * Misses)(Double.MaxValue)
    private var samples = 0L
    def isKnown: Boolean = samples >= Misses
    def perRow: Double = recent.min
    def add(nanosPerRow: Double): Unit = {
      recent((samples % recent.length).toInt) = nanosPerRow
      samples += 1
    }
  }
}
