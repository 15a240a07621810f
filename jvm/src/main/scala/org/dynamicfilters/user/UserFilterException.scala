package org.dynamicfilters.user

import org.apache.spark.sql.execution.dynamicfilters.UserError

/** An error in a command on a user filter, or in the use of the filter in a query.
  *
  * The Python package turns it into an exception of its own, by the code in the error class.
  */
final class UserFilterException(code: UserFilterException.Code, what: String)
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

    /** A form is malformed, whatever the filter's type. */
    case object InvalidForm extends Code("INVALID_FORM")

    /** An SQL function has wrong arguments, or stands in a place where it is not allowed. */
    case object InvalidUse extends Code("INVALID_USE", UserError.Syntax)

    /** A command is incomplete, or unknown to this version. */
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
