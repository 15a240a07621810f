package org.dynamicfilters.testing

import scala.util.hashing.MurmurHash3

/** What becomes of one update on its way. */
sealed trait UpdateFault
object UpdateFault {
  case object None extends UpdateFault
  case object Lost extends UpdateFault
  case object Late extends UpdateFault
  case object Duplicated extends UpdateFault

  /** Arrives after the next one. */
  case object Reordered extends UpdateFault
  case object Undecodable extends UpdateFault
}

/** Decides which updates and tasks suffer a fault. Pure: the same specification and the same names give the same decisions. */
final class Faults(val spec: FaultSpec) {

  /** @param way names the way that the update takes
    * @param n its number on that way
    */
  def ofUpdate(way: String, n: Long): UpdateFault = {
    var left = draw(s"$way/$n")
    Seq(
      spec.lost -> UpdateFault.Lost,
      spec.late -> UpdateFault.Late,
      spec.duplicated -> UpdateFault.Duplicated,
      spec.reordered -> UpdateFault.Reordered,
      spec.undecodable -> UpdateFault.Undecodable
    ).find { case (share, _) => left -= share; left < 0 }.fold[UpdateFault](UpdateFault.None)(_._2)
  }

  /** @param task names the task, alike in all attempts
    */
  def fails(task: String): Boolean = draw(s"fails/$task") < spec.failingTasks
  def isSlow(task: String): Boolean = draw(s"slow/$task") < spec.slowTasks
  def losesShuffle(task: String): Boolean = draw(s"shuffle/$task") < spec.fetchFailures

  /** From 0 until 1. */
  private def draw(name: String): Double = {
    val high = MurmurHash3.stringHash(name, spec.seed.toInt)
    val low = MurmurHash3.stringHash(name, high ^ (spec.seed >>> 32).toInt)
    new java.util.SplittableRandom((high.toLong << 32) ^ low).nextDouble()
  }
}
