package org.dynamicfilters.filter

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.types.LongType

/**
 * One key of a join by several keys.
 *
 * @param domain
 *   type of the key on the side that is looked at. The two sides may be integers of two widths: the code of a number is the
 *   same in each
 * @param nullsMatch
 *   whether NULL is a value like any other (`<=>`); else a tuple with NULL matches none
 */
final case class TuplePart(domain: KeyDomain, nullsMatch: Boolean)

/**
 * What stands for a tuple of keys: a hash of 64 bits, the same for equal tuples. Two others have the same one very seldom,
 * and then a row passes that need not.
 *
 * Part of the format of filters (proto/filters.proto): both sides of a join must come to the same hash.
 */
object TupleHash {

  /** The type of the hashes, so that they are collected, encoded and looked up like keys of a BIGINT column. */
  val domain: LongDomain = new LongDomain(LongType)

  /** The hash of the tuple without keys. */
  private[filter] val empty = 0L

  /** Stands for NULL. Any number would do: one that no counter, date or short string is likely to have. */
  private[filter] val nullCode = 0x6e756c6c4b657953L

  /** 2^64 divided by the golden ratio, odd: the step of SplitMix64. */
  private val step = 0x9e3779b97f4a7c15L

  /**
   * The hash of a tuple that has one more key. For one hash it is a bijection of the code, so that tuples that differ in
   * their last key only never meet; the step keeps a tuple of zeros from staying zero, and keys from commuting.
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
