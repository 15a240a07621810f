package org.dynamicfilters.filter

import java.lang.ref.SoftReference

/** A value that is made by whoever asks first, while the others wait; again, if it could not be made, or when memory was short.
  * Filters of executors are: they come over the network, and those of partitions that have been read are not needed any more.
  */
final class Once[A <: AnyRef] {
  private var made: SoftReference[A] = _

  /** @param make
    *   None, or an exception, if it cannot be made now; it makes the same value for everybody
    */
  def value(make: => Option[A]): Option[A] = synchronized {
    Option(made).flatMap(r => Option(r.get)).orElse {
      val now = make
      made = now.map(new SoftReference(_)).orNull
      now
    }
  }
}
