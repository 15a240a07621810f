package org.dynamicfilters.state

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedDeque}

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag

/** What is held until an end, by keys that each room chooses for itself. Whatever has a `close` is closed then, the newest
  * first. Thread-safe; nothing is closed under a lock.
  */
class Holder extends AutoCloseable {
  private val held = new ConcurrentHashMap[AnyRef, AnyRef]()
  private val toClose = new ConcurrentLinkedDeque[AnyRef]()
  @volatile private var ended = false

  final def isOpen: Boolean = !ended

  /** What is held by this key, made by whoever asks first; `make` attaches nothing itself.
    *
    * @return
    *   None after the end: then there is nothing to hold it for
    */
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
      // Either this sees that the end came in between, or the end sees what was attached.
      if (!ended) Some(a.asInstanceOf[A])
      else {
        detach(key)
        None
      }
    }

  final def find[A <: AnyRef](key: AnyRef): Option[A] = Option(held.get(key)).map(_.asInstanceOf[A])

  /** All of a class that are held now. */
  final def all[A <: AnyRef: ClassTag]: Iterator[A] = held.values.asScala.iterator.collect { case a: A => a }

  /** Ends one of them before the others; what it was. */
  final def detach[A <: AnyRef](key: AnyRef): Option[A] = Option(held.remove(key)).map { a =>
    a match {
      case c: AutoCloseable =>
        toClose.remove(key)
        c.close()
      case _ =>
    }
    a.asInstanceOf[A]
  }

  /** Idempotent. A failure keeps nothing else open; the first is thrown when all are closed. */
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
    // Not what comes just now: whoever attaches that closes it.
    held.values.removeIf(!_.isInstanceOf[AutoCloseable])
    if (failure != null) throw failure
  }
}
