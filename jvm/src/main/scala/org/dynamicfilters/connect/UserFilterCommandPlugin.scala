package org.dynamicfilters.connect

import com.google.protobuf.{Any => ProtoAny}
import org.apache.spark.SparkConf
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.connect.plugin.CommandPlugin
import org.dynamicfilters.proto.UserFilterCommand
import org.dynamicfilters.user.UserFilterCommands

/** Takes commands on filters of one's own from Spark Connect clients. */
class UserFilterCommandPlugin extends CommandPlugin {

  /** @param command
    *   the extension of Connect's command, as bytes: so on every Spark line
    * @return
    *   false if it is somebody else's
    */
  override def process(command: Array[Byte], planner: SparkConnectPlanner): Boolean = {
    val extension = ProtoAny.parseFrom(command)
    if (!extension.is(classOf[UserFilterCommand])) false
    else {
      ConnectSessions.used(planner)
      UserFilterCommands.handle(planner.session, extension.getValue)
      true
    }
  }
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
