package org.dynamicfilters.filter

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.types.LongType

/** One key of a join by several keys.
  *
  * @param domain
  *   type of the key on this side of the join. The two sides may have integers of different widths, in which a number
  *   has the same code
  * @param nullsMatch
  *   whether NULL equals NULL (`<=>`). If not, a tuple with NULL matches no other
  */
final case class TuplePart(domain: KeyDomain, nullsMatch: Boolean)

/** A 64-bit hash of a tuple of keys, the same for equal tuples. If two other tuples collide, which is rare, a row
  * passes needlessly.
  *
  * Part of the filter format (proto/filters.proto): both sides of a join must compute the same hash.
  */
object TupleHash {

  /** Hashes are collected, encoded and looked up like keys of a BIGINT column. */
  val domain: LongDomain = new LongDomain(LongType)

  /** The hash of the tuple without keys. */
  private[filter] val empty = 0L

  /** The code of NULL: an arbitrary number that is unlikely as a counter, date or short string. */
  private[filter] val nullCode = 0x6e756c6c4b657953L

  /** 2^64 divided by the golden ratio, odd: the step of SplitMix64. */
  private val step = 0x9e3779b97f4a7c15L

  /** The hash of a tuple with one more key. For a given `hash` it is a bijection of the code, so tuples that differ
    * only in their last key never collide. The step makes the order of keys matter and keeps a tuple of zeros from
    * hashing to zero.
    *
    * The finalizer is variant 13 of David Stafford's ("Better Bit Mixing", 2011), as in Vigna's SplitMix64
    * (https://prng.di.unimi.it/splitmix64.c, public domain) and in `java.util.SplittableRandom.mix64`.
    */
  private[filter] def mix(hash: Long, code: Long): Long = {
    var z = (hash + step) ^ code
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL
    z ^ (z >>> 31)
  }

  /** The code of a key; null = SQL NULL. */
  private[filter] def code(d: KeyDomain, key: AnyRef): Long = if (key == null) nullCode else Bloom.code(d, key)

  /** The code of a column of a row that is not null. */
  private[filter] def codeOfRow(d: KeyDomain, row: SpecializedGetters, ordinal: Int): Long = d match {
    case l: LongDomain => l.longFromRow(row, ordinal)
    case o: ObjectDomain => KeyBytes.hash(KeyBytes.view(o, o.viewOfRow(row, ordinal)))
  }
}
