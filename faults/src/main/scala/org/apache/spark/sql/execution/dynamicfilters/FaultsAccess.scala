package org.apache.spark.sql.execution.dynamicfilters

import java.util.regex.Pattern

import org.apache.spark.SparkEnv
import org.apache.spark.rpc.{RpcCallContext, RpcEndpointRef, RpcEnv, ThreadSafeRpcEndpoint}
import org.apache.spark.util.RpcUtils

/** What the injection of faults needs of Spark's own: RPC to count faults on the driver, a setting, and the files of
  * shuffles. On the wire there are classes of the JDK and of Scala only, see [[RpcAccess]].
  */
object FaultsAccess {

  /** The driver's side. */
  trait LedgerReceiver {
    def note(counter: Int): Unit
    def claim(counter: Int, executionId: Long, most: Int): Boolean
    def trace(event: String): Unit
  }

  /** The way to the driver. */
  final class DriverLedgerWire private[dynamicfilters] (ref: RpcEndpointRef) {
    def note(counter: Int): Unit = ref.send(counter)
    def claim(counter: Int, executionId: Long, most: Int): Boolean = ref.askSync[Boolean]((counter, executionId, most))
    def trace(event: String): Unit = ref.send(event)
  }

  def executorId: String = SparkEnv.get.executorId

  /** A setting of a session.
    *
    * @param check returns the text, or throws with what is wrong with it
    */
  def setting(key: String, default: String, doc: String)(check: String => String): Setting[String] = {
    val entry = SettingsRegistry.build(key).doc(doc).internal().stringConf.transform(check).createWithDefault(default)
    new Setting(entry, "text")
  }

  /** Opens the driver's endpoint; it closes with Spark's RPC. */
  def serve(name: String, receiver: LedgerReceiver): Unit = {
    val env = SparkEnv.get.rpcEnv
    env.setupEndpoint(name, new LedgerEndpoint(env, receiver))
  }

  def connect(name: String): DriverLedgerWire = {
    val spark = SparkEnv.get
    new DriverLedgerWire(RpcUtils.makeDriverRef(name, spark.conf, spark.rpcEnv))
  }

  private final class LedgerEndpoint(override val rpcEnv: RpcEnv, receiver: LedgerReceiver)
      extends ThreadSafeRpcEndpoint {
    override def receive: PartialFunction[Any, Unit] = {
      case counter: Int => receiver.note(counter)
      case event: String => receiver.trace(event)
    }
    override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
      case (counter: Int, executionId: Long, most: Int) => context.reply(receiver.claim(counter, executionId, most))
    }
  }

  /** Removes what a map task wrote in this process; whether there was anything. Spark numbers the files by the task's attempt. */
  def removeShuffleFiles(taskAttemptId: Long): Boolean = {
    val name = Pattern.compile(s"shuffle_\\d+_${taskAttemptId}_\\d+\\.(data|index)")
    val files = SparkEnv.get.blockManager.diskBlockManager.getAllFiles().filter(f => name.matcher(f.getName).matches())
    files.foreach(_.delete())
    files.nonEmpty
  }
}
