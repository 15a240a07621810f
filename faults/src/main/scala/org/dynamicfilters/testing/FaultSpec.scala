package org.dynamicfilters.testing

import scala.util.Try

import org.apache.spark.sql.execution.dynamicfilters.UserError

/** Which faults are injected into the queries of a session, as the setting `spark.dynamicFilters.testing.faults.spec` says.
  *
  * @param seed of the choices; the same seed makes the same ones, as far as tasks and messages come in the same order
  * @param lost share of updates that never arrive
  * @param late share of updates that arrive `delayMillis` later
  * @param duplicated share of updates that arrive twice
  * @param reordered share of updates that arrive after the next one
  * @param undecodable share of messages that arrive as bytes that are none: malformed, of another version, too long
  * @param failingTasks share of tasks that fail once, after they have contributed
  * @param slowTasks share of tasks that take `slowMillis` longer, after they have contributed, so that Spark speculates
  * @param killedExecutors so many executor processes end in each query, after one of their tasks has contributed
  * @param killBest only executors whose rows make the bound are killed
  * @param fetchFailures share of shuffle files that are gone when their map task has ended
  * @param coordinatorMillis how long the driver takes for each message
  * @param trace whether the times of contributions and bounds are kept, for measurements
  */
final case class FaultSpec(
    seed: Long = 0,
    lost: Double = 0,
    late: Double = 0,
    duplicated: Double = 0,
    reordered: Double = 0,
    undecodable: Double = 0,
    delayMillis: Long = 50,
    failingTasks: Double = 0,
    slowTasks: Double = 0,
    slowMillis: Long = 2000,
    killedExecutors: Int = 0,
    killBest: Boolean = false,
    fetchFailures: Double = 0,
    coordinatorMillis: Long = 0,
    trace: Boolean = false
) {

  /** Whether a task may be made to do anything else than its work. */
  def touchesTasks: Boolean = failingTasks > 0 || slowTasks > 0 || killedExecutors > 0 || fetchFailures > 0
}

object FaultSpec {
  private type Reader = (FaultSpec, String) => Option[FaultSpec]

  private def share(set: (FaultSpec, Double) => FaultSpec): Reader =
    (s, text) => text.toDoubleOption.filter(v => v >= 0 && v <= 1).map(set(s, _))
  private def number(most: Long)(set: (FaultSpec, Long) => FaultSpec): Reader =
    (s, text) => text.toLongOption.filter(v => v >= 0 && v <= most).map(set(s, _))
  private def flag(set: (FaultSpec, Boolean) => FaultSpec): Reader = (s, text) => text.toBooleanOption.map(set(s, _))

  private val Share = "a share from 0 to 1"
  private val Millis = "milliseconds, from 0 to 600000"
  private val MostMillis = 600000L

  // By key: what it takes, and how it is read.
  private val fields: Seq[(String, (String, Reader))] = Seq(
    "seed" -> (("a whole number", (s, text) => Try(text.toLong).toOption.map(n => s.copy(seed = n)))),
    "lost" -> ((Share, share((s, v) => s.copy(lost = v)))),
    "late" -> ((Share, share((s, v) => s.copy(late = v)))),
    "duplicated" -> ((Share, share((s, v) => s.copy(duplicated = v)))),
    "reordered" -> ((Share, share((s, v) => s.copy(reordered = v)))),
    "undecodable" -> ((Share, share((s, v) => s.copy(undecodable = v)))),
    "delayMillis" -> ((Millis, number(MostMillis)((s, v) => s.copy(delayMillis = v)))),
    "failingTasks" -> ((Share, share((s, v) => s.copy(failingTasks = v)))),
    "slowTasks" -> ((Share, share((s, v) => s.copy(slowTasks = v)))),
    "slowMillis" -> ((Millis, number(MostMillis)((s, v) => s.copy(slowMillis = v)))),
    "killedExecutors" -> (("a number from 0 to 100", number(100)((s, v) => s.copy(killedExecutors = v.toInt)))),
    "killBest" -> (("true or false", flag((s, v) => s.copy(killBest = v)))),
    "fetchFailures" -> ((Share, share((s, v) => s.copy(fetchFailures = v)))),
    "coordinatorMillis" -> ((Millis, number(MostMillis)((s, v) => s.copy(coordinatorMillis = v)))),
    "trace" -> (("true or false", flag((s, v) => s.copy(trace = v))))
  )
  private val byKey = fields.toMap

  // All faults' names have to fit beside it.
  private def shown(text: String) = UserError.shown(text, 20)

  /** Reads `seed=7,lost=0.1,...`; what is not named is as [[FaultSpec]] says.
    *
    * @return or what is wrong with the text
    */
  def parse(text: String): Either[String, FaultSpec] = {
    val read = text.split(",").map(_.trim).filter(_.nonEmpty).foldLeft[Either[String, FaultSpec]](Right(FaultSpec())) {
      (spec, item) =>
        spec.flatMap { s =>
          item.split("=", 2) match {
            case Array(key, value) =>
              byKey.get(key.trim) match {
                case Some((takes, reader)) =>
                  reader(s, value.trim).toRight(s"${key.trim} cannot be ${shown(value)}; it takes $takes")
                case None => Left(s"there is no fault ${shown(key)}; there are ${fields.map(_._1).mkString(", ")}")
              }
            case _ => Left(s"${shown(item)} is not of the form key=value")
          }
        }
    }
    read.filterOrElse(
      s => s.lost + s.late + s.duplicated + s.reordered + s.undecodable <= 1.0 + 1e-9,
      "lost, late, duplicated, reordered and undecodable are shares of the same updates; together they are above 1"
    )
  }
}
