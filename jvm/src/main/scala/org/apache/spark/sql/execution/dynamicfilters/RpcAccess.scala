package org.apache.spark.sql.execution.dynamicfilters

import scala.concurrent.duration.{DurationInt, DurationLong}

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.rpc.{RpcCallContext, RpcEndpointRef, RpcEnv, RpcTimeout, ThreadSafeRpcEndpoint}
import org.apache.spark.util.RpcUtils

/** Access to Spark's RPC, which is private to Spark's packages: sends bytes between executors and the driver.
  *
  * An executor has no address. So it sends the driver a reference to its endpoint, and the driver answers on the
  * connection that the executor opened. Messages have classes of the JDK, of Scala and of Spark only: with `--jars`,
  * the thread that reads a message does not know our classes, and the message would be lost without an error.
  */
object RpcAccess {

  /** Receives messages on the driver. Called on RPC threads, so must be short. */
  trait DriverReceiver {
    def registered(peer: String, executorId: String, to: PeerWire): Unit
    def received(peer: String, bytes: Array[Byte]): Unit

    /** Receives a request. `reply` may be called later, on any thread. */
    def asked(bytes: Array[Byte], reply: Array[Byte] => Unit): Unit
    def refused(): Unit
  }

  /** Receives messages on an executor, as [[DriverReceiver]]. */
  trait ExecutorReceiver {
    def received(bytes: Array[Byte]): Unit
    def refused(): Unit

    /** The live counts of this process by name. */
    def live(): Seq[(String, Long)]
  }

  /** Sends to one executor. */
  final class PeerWire private[dynamicfilters] (ref: RpcEndpointRef) {
    def send(bytes: Array[Byte]): Unit = ref.send(bytes)

    /** Asks for the live counts. Blocks for at most five seconds; throws if there is no answer. */
    def live(): Seq[(String, Long)] =
      ref.askSync[Seq[(String, Long)]](LiveQuestion, new RpcTimeout(5.seconds, "five seconds"))
  }

  private val LiveQuestion = "live"

  /** Sends to the driver. */
  final class DriverWire private[dynamicfilters] (ref: RpcEndpointRef, peer: String, stopEndpoint: () => Unit) {
    def send(bytes: Array[Byte]): Unit = ref.send((peer, bytes))

    /** Sends a request and blocks until the driver answers; throws if it does not in time. */
    def ask(bytes: Array[Byte], millis: Long): Array[Byte] =
      ref.askSync[Array[Byte]](
        (peer, bytes),
        new RpcTimeout(DurationLong(millis).millis, "the exchange's own limit")
      )
    def stop(): Unit = stopEndpoint()
  }

  def executorId: String = SparkEnv.get.executorId

  /** Whether this process is the driver's. */
  def isDriver: Boolean = SparkEnv.get.executorId == SparkContext.DRIVER_IDENTIFIER

  /** Opens the driver's endpoint.
    *
    * @return closes the endpoint
    */
  def serve(name: String, receiver: DriverReceiver): () => Unit = {
    val env = SparkEnv.get.rpcEnv
    val ref = env.setupEndpoint(name, new DriverEndpoint(env, receiver))
    () => env.stop(ref)
  }

  /** Opens this executor's endpoint and registers it with the driver. Blocks; throws if the driver does not answer.
    *
    * @param peer unique in the application
    */
  def connect(name: String, peer: String, receiver: ExecutorReceiver): DriverWire = {
    val spark = SparkEnv.get
    val env = spark.rpcEnv
    val driver = RpcUtils.makeDriverRef(name, spark.conf, env)
    val own = env.setupEndpoint(s"$name-$peer", new ExecutorEndpoint(env, receiver))
    try driver.askSync[Boolean]((peer, spark.executorId, own))
    catch { case e: Throwable => env.stop(own); throw e }
    new DriverWire(driver, peer, () => env.stop(own))
  }

  private final class DriverEndpoint(override val rpcEnv: RpcEnv, receiver: DriverReceiver)
      extends ThreadSafeRpcEndpoint {
    override def receive: PartialFunction[Any, Unit] = {
      case (peer: String, bytes: Array[Byte]) => receiver.received(peer, bytes)
      case _ => receiver.refused()
    }
    override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
      case (peer: String, executorId: String, ref: RpcEndpointRef) =>
        receiver.registered(peer, executorId, new PeerWire(ref))
        context.reply(true)
      case (_: String, bytes: Array[Byte]) => receiver.asked(bytes, context.reply(_))
    }
  }

  private final class ExecutorEndpoint(override val rpcEnv: RpcEnv, receiver: ExecutorReceiver)
      extends ThreadSafeRpcEndpoint {
    override def receive: PartialFunction[Any, Unit] = {
      case bytes: Array[Byte] => receiver.received(bytes)
      case _ => receiver.refused()
    }
    override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = { case LiveQuestion =>
      context.reply(receiver.live())
    }
  }
}
