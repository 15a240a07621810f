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

/** Executes the commands that the Python package sends through Spark Connect: user filter commands, and queries that run for a
  * report only.
  */
class UserFilterCommandPlugin extends CommandPlugin {

  /** Default of `spark.connect.grpc.marshallerRecursionLimit`. */
  private val DeepestQuery = 1024

  /** @param command the extension of Connect's command, as bytes
    * @return false if the command belongs to another plugin
    */
  override def process(command: Array[Byte], planner: SparkConnectPlanner): Boolean = {
    val extension = ProtoAny.parseFrom(command)
    if (extension.is(classOf[UserFilterCommand])) {
      ConnectSessions.used(planner)
      UserFilterCommands.handle(planner.session, extension.getValue.toByteArray)
      true
    } else if (extension.is(classOf[RunQuery])) {
      val query = CodedInputStream.newInstance(extension.unpack(classOf[RunQuery]).getRelation.toByteArray)
      query.setRecursionLimit(DeepestQuery)
      QueryAccess.run(planner.session, planner.transformRelation(Relation.parseFrom(query)))
      true
    } else false
  }
}

/** Registers the plugin with Spark Connect, by name: a classic driver may lack Connect's classes. */
object ConnectPlugins {
  private val Commands = "spark.connect.extensions.command.classes"
  private val Mine = "org.dynamicfilters.connect.UserFilterCommandPlugin"

  /** Idempotent. Must run before the first command, when Connect reads the setting. */
  def register(conf: SparkConf): Unit = {
    val others = conf.get(Commands, "").split(",").map(_.trim).filter(_.nonEmpty)
    if (!others.contains(Mine)) conf.set(Commands, (others :+ Mine).mkString(","))
  }
}
