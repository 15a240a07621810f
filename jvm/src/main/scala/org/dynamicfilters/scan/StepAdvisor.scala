package org.dynamicfilters.scan

import org.dynamicfilters.state.{Budget, Cost}

/** Whether a step is taken, and who hears what it did. */
trait StepJudge {

  /** Whether to take the step in the next row group. */
  def isWorthIt(): Boolean

  /** What the step did in a row group: how much there was before it and after it, in rows or row groups.
    *
    * @return
    *   whether it is given up by this
    */
  def judge(before: Long, after: Long): Boolean
}

/** Decides for a scan, from what a step left out so far, whether the step is taken in the next row group.
  *
  * For steps whose use depends on the scanned table and is not known before. A filter of tuples says no more than those of
  * the single keys where one key follows from another; a dictionary in which every value occurs once is as long as the column
  * itself, and only says what reading the column would say.
  *
  * Shared by the tasks of a process. Thread-safe.
  *
  * @param giveUpSelectivity
  *   a step that lets more than this share pass is not worth its cost; 1 never gives up
  * @param missesToGiveUp
  *   how many such steps in a row it takes; then one in [[StepAdvisor.RetryEvery]] is taken
  */
final class StepAdvisor(giveUpSelectivity: Double, missesToGiveUp: Int = 2) extends StepJudge {
  private var misses = 0
  private var asked = 0L
  private val budget = new Budget

  override def isWorthIt(): Boolean = synchronized {
    asked += 1
    (misses < missesToGiveUp || asked % StepAdvisor.RetryEvery == 0) && (giveUpSelectivity >= 1 || !budget.isOver)
  }

  /** What the step cost, or work that went on without it. A step whose cost nobody tells is never over its budget. */
  def cost(c: Cost): Unit = budget.add(c)

  override def judge(before: Long, after: Long): Boolean = synchronized {
    val gaveUp = misses >= missesToGiveUp
    if (before > 0) misses = if (after > before * giveUpSelectivity) misses + 1 else 0
    !gaveUp && misses >= missesToGiveUp
  }
}

object StepAdvisor {
  val RetryEvery = 16L
}
