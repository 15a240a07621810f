package org.dynamicfilters.filter

/**
 * One end of a range.
 *
 * @param key
 *   not null
 * @param inclusive
 *   whether the key itself belongs to the range
 */
final case class End(key: AnyRef, inclusive: Boolean) {

  // Keys of binary columns are arrays, which the JVM compares by identity.
  override def equals(other: Any): Boolean = other match {
    case that: End => that.inclusive == inclusive && End.sameKey(that.key, key)
    case _ => false
  }

  override def hashCode: Int = End.hashOf(key) * 31 + inclusive.hashCode
}

object End {
  private[filter] def sameKey(a: AnyRef, b: AnyRef): Boolean = (a, b) match {
    case (x: Array[Byte], y: Array[Byte]) => java.util.Arrays.equals(x, y)
    case _ => a == b
  }

  private[filter] def hashOf(key: AnyRef): Int = key match {
    case b: Array[Byte] => java.util.Arrays.hashCode(b)
    case _ => java.util.Objects.hashCode(key)
  }
}
