package org.apache.spark.sql.execution.dynamicfilters

import java.lang.invoke.SerializedLambda

import scala.util.Try

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.util.SerializableConfiguration

/** The Hadoop configuration that the function of a file reader takes along to its tasks, as a broadcast.
  *
  * Another broadcast would take some 2 ms for each scan. The function is a lambda that captures the broadcast in Spark
  * 4.1 to 4.3. Captured values are read from the lambda's serialized form, as `ClosureCleaner` does.
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
        // Other broadcasts of a table format may be destroyed.
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
