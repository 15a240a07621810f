package org.dynamicfilters.state

import java.lang.ref.{ReferenceQueue, WeakReference}
import java.util.concurrent.ConcurrentHashMap

/** Objects by key, each as long as something else holds it. Thread-safe. Drops entries by a queue, not by a look at all of them:
  * thousands of short queries may come before the collector does.
  */
private[state] final class WeakRegistry[K, A <: AnyRef] {
  import WeakRegistry.Entry

  private val gone = new ReferenceQueue[A]
  private val entries = new ConcurrentHashMap[K, Entry[K, A]]()

  def put(key: K, a: A): Unit = {
    Iterator.continually(gone.poll()).takeWhile(_ != null).foreach {
      case e: Entry[K @unchecked, _] => entries.remove(e.key, e)
      case _ =>
    }
    entries.put(key, new Entry(key, a, gone))
  }

  def find(key: K): Option[A] = Option(entries.get(key)).flatMap(e => Option(e.get))
}

private object WeakRegistry {
  final class Entry[K, A <: AnyRef](val key: K, a: A, gone: ReferenceQueue[A]) extends WeakReference[A](a, gone)
}
