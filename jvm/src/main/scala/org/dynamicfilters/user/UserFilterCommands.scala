package org.dynamicfilters.user

import scala.util.control.NonFatal

import com.google.protobuf.InvalidProtocolBufferException
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.types.YearMonthIntervalType
import org.dynamicfilters.filter.KeyDomain
import org.dynamicfilters.proto.{CreateUserFilter, UpdateUserFilter, UserFilterCommand}
import org.dynamicfilters.settings.Settings

/** Executes the user filter commands of proto/dynamic_filter_commands.proto. Python calls it through Py4J in classic sessions,
  * and through the command plugin (room `connect`) in Spark Connect.
  */
object UserFilterCommands {
  import UserFilterException.Code

  private val Version = 1

  /** Executes one command. Throws [[UserFilterException]] and changes nothing if the command is refused. */
  def handle(session: SparkSession, bytes: Array[Byte]): Unit = {
    val command =
      try UserFilterCommand.parseFrom(bytes)
      catch { case e: InvalidProtocolBufferException => throw refused(s"no command: ${e.getMessage}") }
    if (command.getVersion != Version)
      throw refused(
        s"a command of version ${command.getVersion}, only $Version is known: client and server must be of one version"
      )
    if (!command.getUnknownFields.asMap.isEmpty) throw refused("a command with unknown fields")
    val sessionId = SparkAccess.sessionId(session)
    command.getCommandCase match {
      case UserFilterCommand.CommandCase.CREATE => create(session, command.getCreate)
      case UserFilterCommand.CommandCase.UPDATE => update(session, sessionId, command.getUpdate)
      case UserFilterCommand.CommandCase.CLOSE =>
        UserFilters.close(sessionId, command.getClose.getName, command.getClose.getToken)
      case _ => throw refused("an unknown command")
    }
  }

  private def create(session: SparkSession, c: CreateUserFilter): Unit = {
    def wrong(why: String) = UserFilterException.of(Code.TypeMismatch, c.getName, c.getDataType, why)
    if (c.getName.isEmpty) throw new UserFilterException(Code.InvalidCommand, "a filter without a name")
    val dataType =
      try CatalystSqlParser.parseDataType(c.getDataType)
      catch { case NonFatal(_) => throw wrong("there is no such type; write it as in SQL, for example bigint") }
    if (dataType.isInstanceOf[YearMonthIntervalType]) throw wrong("clients have no values of it")
    val domain = KeyDomain.forType(dataType).fold(why => throw wrong(why.text), identity)
    UserFilters.create(session, c.getName, domain, c.getToken)
  }

  private def update(session: SparkSession, sessionId: String, u: UpdateUserFilter): Unit = {
    val f = UserFilters.find(sessionId, u.getName, u.getToken)
    val conf = session.sessionState.conf
    val reader =
      new FormReader(f.name, f.domain, Settings.get(conf, Settings.InMaxValues), Settings.get(conf, Settings.BloomFpp))
    f.update(reader.read(u.getForm))
  }

  private def refused(what: String): UserFilterException = new UserFilterException(Code.InvalidCommand, what)
}
