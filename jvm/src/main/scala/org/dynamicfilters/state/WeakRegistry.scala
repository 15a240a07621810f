package org.dynamicfilters.state

import java.util.Collections

import org.apache.commons.collections4.map.AbstractReferenceMap.ReferenceStrength.{HARD, WEAK}
import org.apache.commons.collections4.map.ReferenceMap

/** Objects by key, each as long as something else holds it. Thread-safe. */
private[state] final class WeakRegistry[K, A] {
  private val entries = Collections.synchronizedMap(new ReferenceMap[K, A](HARD, WEAK))

  def put(key: K, a: A): Unit = entries.put(key, a)
  def find(key: K): Option[A] = Option(entries.get(key))
}
