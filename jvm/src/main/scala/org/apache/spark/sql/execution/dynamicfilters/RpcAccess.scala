package org.apache.spark.sql.execution.dynamicfilters

import scala.concurrent.duration.{DurationInt, DurationLong}

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rpc.{RpcCallContext, RpcEndpointRef, RpcEnv, RpcTimeout, ThreadSafeRpcEndpoint}
import org.apache.spark.util.RpcUtils

/** Spark's RPC, which is visible only inside its own packages: bytes between executors and the driver.
  *
  * An executor has no address of its own; it sends the driver a reference to its endpoint, and the driver answers down the
  * connection that the executor opened. On the wire there are classes of the JDK, of Scala and of Spark only: with `--jars`
  * the thread that reads a message does not know ours, and the message would be lost without an error.
  */
object RpcAccess {

  /** The driver's side. All are called on RPC threads and must be short. */
  trait DriverReceiver {
    def registered(peer: String, executorId: String, to: PeerWire): Unit
    def received(peer: String, bytes: Array[Byte]): Unit

    /** A question; `reply` may be called later, on any thread, with null for no broadcast. */
    def asked(bytes: Array[Byte], reply: (Array[Byte], Broadcast[Array[Byte]]) => Unit): Unit
    def refused(): Unit
  }

  /** The executor's side, likewise. */
  trait ExecutorReceiver {
    def received(bytes: Array[Byte], payload: Option[() => Array[Byte]]): Unit
    def refused(): Unit

    /** What this process holds, as text. */
    def live(): String
  }

  /** The way to one executor. */
  final class PeerWire private[dynamicfilters] (ref: RpcEndpointRef) {
    def send(bytes: Array[Byte], payload: Broadcast[Array[Byte]]): Unit =
      if (payload == null) ref.send(bytes) else ref.send((bytes, payload))

    /** Blocks, for at most five seconds; throws if there is no answer. */
    def live(): String = ref.askSync[String](LiveQuestion, new RpcTimeout(5.seconds, "five seconds"))
  }

  private val LiveQuestion = "live"

  /** The way to the driver. */
  final class DriverWire private[dynamicfilters] (ref: RpcEndpointRef, peer: String, stopEndpoint: () => Unit) {
    def send(bytes: Array[Byte]): Unit = ref.send((peer, bytes))

    /** Blocks until the driver has answered; throws if it does not in time.
      *
      * @return
      *   the answer, and what fetches the broadcast beside it
      */
    def ask(bytes: Array[Byte], millis: Long): (Array[Byte], Option[() => Array[Byte]]) =
      ref.askSync[Any]((peer, bytes), new RpcTimeout(DurationLong(millis).millis, "the exchange's own limit")) match {
        case answer: Array[Byte] => (answer, None)
        case (answer: Array[Byte], payload: Broadcast[_]) =>
          (answer, Some(() => payload.value.asInstanceOf[Array[Byte]]))
        case other => throw new IllegalStateException(s"an answer of type ${other.getClass.getName}")
      }
    def stop(): Unit = stopEndpoint()
  }

  def executorId: String = SparkEnv.get.executorId

  /** Whether this process is the driver's. */
  def isDriver: Boolean = SparkEnv.get.executorId == SparkContext.DRIVER_IDENTIFIER

  /** Opens the driver's endpoint.
    *
    * @return
    *   closes it
    */
  def serve(name: String, receiver: DriverReceiver): () => Unit = {
    val env = SparkEnv.get.rpcEnv
    val ref = env.setupEndpoint(name, new DriverEndpoint(env, receiver))
    () => env.stop(ref)
  }

  /** Opens this executor's endpoint and makes it known to the driver; blocks until the driver has answered, and throws if it
    * does not.
    *
    * @param peer
    *   unique in the application
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
      case (_: String, bytes: Array[Byte]) =>
        receiver.asked(bytes, (answer, payload) => context.reply(if (payload == null) answer else (answer, payload)))
    }
  }

  private final class ExecutorEndpoint(override val rpcEnv: RpcEnv, receiver: ExecutorReceiver)
      extends ThreadSafeRpcEndpoint {
    override def receive: PartialFunction[Any, Unit] = {
      case bytes: Array[Byte] => receiver.received(bytes, None)
      case (bytes: Array[Byte], payload: Broadcast[_]) =>
        receiver.received(bytes, Some(() => payload.value.asInstanceOf[Array[Byte]]))
      case _ => receiver.refused()
    }
    override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = { case LiveQuestion =>
      context.reply(receiver.live())
    }
  }
}
