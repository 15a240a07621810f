package org.dynamicfilters.user

import org.apache.spark.sql.execution.dynamicfilters.UserError

/** What is wrong with a command on a user filter, or with its use in a query.
  *
  * The Python package makes its own exceptions of it, by the code in its error class.
  */
final class UserFilterException(val code: UserFilterException.Code, what: String)
    extends UserError(s"DYNAMIC_FILTER_$code", what, code.sqlState)

object UserFilterException {
  import UserError.shown

  /** As it stands in messages. */
  sealed abstract class Code(text: String, val sqlState: String = UserError.InvalidValue) {
    override def toString: String = text
  }
  object Code {

    /** The session has no filter of this name. */
    case object NotFound extends Code("NOT_FOUND", UserError.UndefinedObject)
    case object Closed extends Code("CLOSED", UserError.UndefinedObject)

    /** The session has an open filter of this name. */
    case object Duplicate extends Code("DUPLICATE", UserError.DuplicateObject)

    /** A value, form or column does not fit the filter's type. */
    case object TypeMismatch extends Code("TYPE_MISMATCH", UserError.TypeMismatch)

    /** A form is wrong in itself. */
    case object InvalidForm extends Code("INVALID_FORM")

    /** A function is called in a way or place that it is not made for. */
    case object InvalidUse extends Code("INVALID_USE", UserError.Syntax)

    /** A command that this version does not understand, or that came incomplete. */
    case object InvalidCommand extends Code("INVALID_COMMAND")
  }

  def notFound(name: String): UserFilterException =
    new UserFilterException(
      Code.NotFound,
      s"filter '${shown(name)}' is unknown in this session; names belong to the session that created them"
    )

  def closed(name: String, dataType: String): UserFilterException =
    new UserFilterException(Code.Closed, s"${named(name, dataType)} is closed; create_filter makes a new one")

  def of(code: Code, name: String, dataType: String, what: String): UserFilterException =
    new UserFilterException(code, s"${named(name, dataType)}: $what")

  private def named(name: String, dataType: String) = s"filter '${shown(name)}' of type ${shown(dataType, MostOfType)}"

  private val MostOfType = 30
}
