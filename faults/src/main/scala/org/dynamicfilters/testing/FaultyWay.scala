package org.dynamicfilters.testing

import org.dynamicfilters.exchange.Schedule

/** A way that updates of one execution take, with faults.
  *
  * @param name alike in all runs of the same query
  */
private[testing] final class FaultyWay(name: String, faults: Faults, schedule: Schedule, ledger: FaultLedger) {
  import FaultCounter._

  private var updates = 0L
  private var held: Option[() => Unit] = None

  /** Lets one update through, or does to it what the faults say.
    *
    * @param deliver hands the update on; may be called late, twice or never
    * @param broken hands on something undecodable in its place; None where updates are no bytes: then it arrives as it
    *   is, or there would be no messages to spoil
    */
  def pass(deliver: () => Unit, broken: Option[() => Unit]): Unit = {
    val now = synchronized {
      updates += 1
      val before = held.toSeq
      held = None
      val first: Seq[() => Unit] = faults.ofUpdate(name, updates) match {
        case UpdateFault.None => Seq(deliver)
        case UpdateFault.Lost => ledger.note(faultLost); Nil
        case UpdateFault.Late => ledger.note(faultLate); later(deliver); Nil
        case UpdateFault.Duplicated => ledger.note(faultDuplicated); Seq(deliver, deliver)
        case UpdateFault.Reordered =>
          ledger.note(faultReordered)
          held = Some(deliver)
          // There may be no next one.
          later(() => release(deliver))
          Nil
        case UpdateFault.Undecodable =>
          broken.foreach(_ => ledger.note(faultUndecodable)); Seq(broken.getOrElse(deliver))
      }
      first ++ before
    }
    now.foreach(_())
  }

  private def later(f: () => Unit): Unit = schedule.later(faults.spec.delayMillis)(f())

  private def release(deliver: () => Unit): Unit = {
    val due = synchronized {
      val mine = held.exists(_ eq deliver)
      if (mine) held = None
      mine
    }
    if (due) deliver()
  }
}
