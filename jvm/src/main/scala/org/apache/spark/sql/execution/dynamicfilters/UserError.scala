package org.apache.spark.sql.execution.dynamicfilters

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.trees.Origin

/** A user's mistake: one line with an error class, of at most [[UserError.MaxLength]] characters, without a stack.
  *
  * An AnalysisException, because spark-sql prints only its message, and classic PySpark and Spark Connect keep its
  * error class. It has no stack, because Spark Connect prints the server's stack too.
  *
  * @param condition the error class, `DYNAMIC_FILTER_...`
  * @param what names the thing, what is wrong with it, and what is right; text that users gave goes through
  *   [[UserError.shown]]
  * @param sqlState of the SQL standard
  */
class UserError(condition: String, what: String, sqlState: String = UserError.InvalidValue)
    extends AnalysisException(
      condition,
      sqlState,
      "<what>",
      Map("what" -> UserError.sentence(UserError.shown(what, UserError.room(condition)))),
      None,
      None
    ) {
  override def fillInStackTrace(): Throwable = this

  /** Spark replaces an error's stack by that of a later caller who asks for the plan. */
  override def setStackTrace(stackTrace: Array[StackTraceElement]): Unit = ()

  /** Adds no position: PySpark logs errors with one, and looks for their classes among Spark's own. */
  override def withPosition(origin: Origin): AnalysisException = this
}

object UserError {
  val MaxLength = 300

  val InvalidValue = "22023"
  val Syntax = "42601"
  val UndefinedObject = "42704"
  val DuplicateObject = "42710"
  val TypeMismatch = "42804"

  private val ShownOfText = 60

  /** What Spark puts around the text: `[condition] text SQLSTATE: 22023`. */
  private def room(condition: String): Int = MaxLength - s"[$condition] . SQLSTATE: $InvalidValue".length

  private def sentence(text: String): String = if (".?…".contains(text.last)) text else text + "."

  /** A text of the user's on one line, cut where it is long. */
  def shown(text: String, most: Int = ShownOfText): String = {
    val line = text.replaceAll("\\s+", " ").trim
    if (line.length <= most) line else line.take(most - 1) + "…"
  }
}
