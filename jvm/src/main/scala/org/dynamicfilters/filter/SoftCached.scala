package org.dynamicfilters.filter

import java.lang.ref.SoftReference

/** A value that the first caller makes while the others wait, softly referenced. It is made again if that failed, or if
  * memory was short. Executors hold decoded filters this way: their bytes can be fetched again.
  */
final class SoftCached[A <: AnyRef] {
  private var made: SoftReference[A] = _

  /** @param make makes the value, the same for every caller; None or an exception if that fails now */
  def value(make: => Option[A]): Option[A] = synchronized {
    Option(made).flatMap(r => Option(r.get)).orElse {
      val now = make
      made = now.map(new SoftReference(_)).orNull
      now
    }
  }
}
