package org.dynamicfilters.state

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedDeque}

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag

/** Holds objects by key until it is closed, and then closes those that are AutoCloseable, newest first. [[Execution]]
  * is one, and each task has one ([[RunningTasks]]). Thread-safe; closes nothing under a lock.
  */
class Holder extends AutoCloseable {
  private val held = new ConcurrentHashMap[AnyRef, AnyRef]()
  private val toClose = new ConcurrentLinkedDeque[AnyRef]()
  @volatile private var ended = false

  final def isOpen: Boolean = !ended

  /** The object under the key, made at the first call; None after the end. `make` must not attach anything. */
  final def attach[A <: AnyRef](key: AnyRef)(make: => A): Option[A] =
    if (ended) None
    else {
      val known = held.get(key)
      val a =
        if (known != null) known
        else
          held.computeIfAbsent(
            key,
            { _ =>
              val made = make
              if (made.isInstanceOf[AutoCloseable]) toClose.add(key)
              made
            }
          )
      // Either this sees `ended`, or `close` sees the new object.
      if (!ended) Some(a.asInstanceOf[A])
      else {
        detach(key)
        None
      }
    }

  final def find[A <: AnyRef](key: AnyRef): Option[A] = Option(held.get(key)).map(_.asInstanceOf[A])

  /** All objects of a class. */
  final def all[A <: AnyRef: ClassTag]: Iterator[A] = held.values.asScala.iterator.collect { case a: A => a }

  /** Removes and closes one object, and returns it. */
  final def detach[A <: AnyRef](key: AnyRef): Option[A] = Option(held.remove(key)).map { a =>
    a match {
      case c: AutoCloseable =>
        toClose.remove(key)
        c.close()
      case _ =>
    }
    a.asInstanceOf[A]
  }

  /** Idempotent. Closes all objects, also after a failure, and then throws the first one. */
  override def close(): Unit = {
    ended = true
    var failure: Throwable = null
    var key = toClose.pollLast()
    while (key != null) {
      try detach(key)
      catch {
        case e: Throwable => if (failure == null) failure = e else failure.addSuppressed(e)
      }
      key = toClose.pollLast()
    }
    // Not objects that are attached right now: `attach` closes them.
    held.values.removeIf(!_.isInstanceOf[AutoCloseable])
    if (failure != null) throw failure
  }
}
