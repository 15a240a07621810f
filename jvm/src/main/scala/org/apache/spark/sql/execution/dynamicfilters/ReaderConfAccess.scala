package org.apache.spark.sql.execution.dynamicfilters

import java.lang.invoke.SerializedLambda

import scala.util.Try

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.util.SerializableConfiguration

/** The Hadoop configuration that the function of a file reader takes along to its tasks, as a broadcast.
  *
  * To make another one takes some 2 ms a scan. The function is a lambda that has the broadcast among its captured
  * values, in Spark 4.1 to 4.3; these are seen as `ClosureCleaner` sees them, by what the lambda writes of itself.
  */
object ReaderConfAccess {

  /** A table format's reader holds the function that it makes of Spark's. */
  private val Depth = 2

  /** @return None if the reader is no lambda, or has no such value
    */
  def of(reader: AnyRef): Option[Broadcast[SerializableConfiguration]] = find(reader, Depth)

  private def find(function: AnyRef, depth: Int): Option[Broadcast[SerializableConfiguration]] = {
    val captured = capturedBy(function)
    captured
      .collectFirst {
        // Whatever else a table format sends along may be destroyed.
        case b: Broadcast[_] if Try(b.value).toOption.exists(_.isInstanceOf[SerializableConfiguration]) =>
          b.asInstanceOf[Broadcast[SerializableConfiguration]]
      }
      .orElse(
        if (depth > 1)
          captured.iterator.collect { case f: Function1[_, _] => f }.flatMap(find(_, depth - 1)).nextOption()
        else None
      )
  }

  private def capturedBy(function: AnyRef): Seq[AnyRef] =
    Try {
      val method = function.getClass.getDeclaredMethod("writeReplace")
      method.setAccessible(true)
      method.invoke(function) match {
        case l: SerializedLambda => (0 until l.getCapturedArgCount).map(l.getCapturedArg)
        case _ => Nil
      }
    }.getOrElse(Nil)
}
