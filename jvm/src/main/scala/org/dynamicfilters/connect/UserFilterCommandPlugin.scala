package org.dynamicfilters.connect

import com.google.protobuf.{Any => ProtoAny}
import org.apache.spark.SparkConf
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.connect.plugin.CommandPlugin
import org.apache.spark.connect.proto.Relation
import org.apache.spark.sql.execution.dynamicfilters.QueryAccess
import org.sparkproject.connect.protobuf.CodedInputStream
import org.dynamicfilters.proto.{RunQuery, UserFilterCommand}
import org.dynamicfilters.user.UserFilterCommands

/** Takes the package's commands from Spark Connect clients: those on users' filters, and queries to run for a report. */
class UserFilterCommandPlugin extends CommandPlugin {

  /** @param command
    *   the extension of Connect's command, as bytes: so on every Spark line
    * @return
    *   false if it is somebody else's
    */
  override def process(command: Array[Byte], planner: SparkConnectPlanner): Boolean = {
    val extension = ProtoAny.parseFrom(command)
    if (extension.is(classOf[UserFilterCommand])) {
      ConnectSessions.used(planner)
      UserFilterCommands.handle(planner.session, extension.getValue)
      true
    } else if (extension.is(classOf[RunQuery])) {
      val query = CodedInputStream.newInstance(extension.unpack(classOf[RunQuery]).getRelation.toByteArray)
      query.setRecursionLimit(UserFilterCommandPlugin.DeepestQuery)
      QueryAccess.run(planner.session, planner.transformRelation(Relation.parseFrom(query)))
      true
    } else false
  }
}

private object UserFilterCommandPlugin {

  /** As Spark Connect's server reads queries by default (`spark.connect.grpc.marshallerRecursionLimit`). */
  val DeepestQuery = 1024
}

/** Makes the plugin known to Spark Connect. By name only, since a classic driver need not have Connect's classes. */
object ConnectPlugins {
  private val Commands = "spark.connect.extensions.command.classes"
  private val Mine = "org.dynamicfilters.connect.UserFilterCommandPlugin"

  /** Idempotent. In time before Connect's first command: Connect reads the setting then. */
  def register(conf: SparkConf): Unit = {
    val others = conf.get(Commands, "").split(",").map(_.trim).filter(_.nonEmpty)
    if (!others.contains(Mine)) conf.set(Commands, (others :+ Mine).mkString(","))
  }
}
