package org.dynamicfilters.user

/** What is wrong with a command on a filter of one's own, or with its use in a query.
  *
  * An IllegalArgumentException, because classic PySpark and Spark Connect both hand such a one on with its message. The code
  * at its start is for the Python package, which makes its own exceptions of it; the message is one line.
  */
final class UserFilterException(val code: UserFilterException.Code, what: String)
    extends IllegalArgumentException(s"[DYNAMIC_FILTER_$code] ${what.replaceAll("\\s+", " ")}")

object UserFilterException {

  /** As it stands in messages. */
  sealed abstract class Code(text: String) {
    override def toString: String = text
  }
  object Code {

    /** The session has no filter of this name. */
    case object NotFound extends Code("NOT_FOUND")
    case object Closed extends Code("CLOSED")

    /** The session has an open filter of this name. */
    case object Duplicate extends Code("DUPLICATE")

    /** A value, form or column does not fit the filter's type. */
    case object TypeMismatch extends Code("TYPE_MISMATCH")

    /** A form is wrong in itself. */
    case object InvalidForm extends Code("INVALID_FORM")

    /** A function is called in a way or place that it is not made for. */
    case object InvalidUse extends Code("INVALID_USE")

    /** A command that this version does not understand, or that came incomplete. */
    case object InvalidCommand extends Code("INVALID_COMMAND")
  }

  def notFound(name: String): UserFilterException =
    new UserFilterException(
      Code.NotFound,
      s"filter '$name' is unknown in this session; names belong to the session that created them"
    )

  def closed(name: String, dataType: String): UserFilterException =
    new UserFilterException(Code.Closed, s"filter '$name' of type $dataType is closed; create_filter makes a new one")

  def of(code: Code, name: String, dataType: String, what: String): UserFilterException =
    new UserFilterException(code, s"filter '$name' of type $dataType: $what")
}
