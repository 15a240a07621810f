package org.dynamicfilters.filter

import org.apache.spark.sql.types._

/** Makes filters of the sets that users give. Unlike filters of joins they are never reduced to less exact forms. */
object UserForms {
  import ValueFilter._

  /** Bloom filters are sized for at least this many values, which takes one or two KiB. */
  private val fewest = 1024

  /** The domain of a bitmap's numbers, for filters of all types. */
  private val numbers = new LongDomain(LongType)

  /** Why a form cannot be a filter.
    *
    * @param isDamaged whether the bytes are malformed; else a member is not a value of the filter's type
    */
  final case class Refusal(reason: String, isDamaged: Boolean)

  /** A filter that passes exactly these keys, and NULL if `nulls`.
    *
    * @param keys in any order, possibly repeated
    * @param mostValues more integers than this are held as a bitmap, if they are dense enough
    */
  def values(d: KeyDomain, keys: Iterator[AnyRef], nulls: Boolean, mostValues: Int): ValueFilter = d match {
    case long: LongDomain =>
      val sorted = LongValues(long, sortedLongs(keys))
      val asBitmap = sorted.size > mostValues && LongBitmap.suits(long) && LongBitmap.pays(sorted)
      all(if (asBitmap) LongBitmap.build(long, sorted.sorted) else sorted, nulls)
    case o: ObjectDomain => all(ObjectValues(o, distinct(o, keys)), nulls)
  }

  /** A filter of all members of an exact set. */
  private def all(keys: KeySet, nulls: Boolean): ValueFilter = members(keys, Range(keys.domain, None, None, nulls))

  /** A bloom filter of these keys, which also passes NULL if `nulls`. */
  def bloom(d: KeyDomain, keys: Iterator[AnyRef], nulls: Boolean, fpp: Double): ValueFilter = d match {
    case long: LongDomain =>
      val sorted = sortedLongs(keys)
      if (sorted.isEmpty) none(d, nulls)
      else
        members(Bloom.build(long, sorted, fpp, fewest), closed(d, Long.box(sorted.head), Long.box(sorted.last), nulls))
    case _ =>
      val sorted = distinct(d, keys)
      if (sorted.isEmpty) none(d, nulls)
      else {
        val codes = SortedLongs.fromUnsorted(sorted.map(Bloom.code(d, _)))
        members(Bloom.build(d, codes, fpp, fewest), closed(d, sorted.head, sorted.last, nulls))
      }
  }

  /** A filter of the members of a roaring bitmap in the portable serialization.
    *
    * @param bits 32 or 64; 0 if it is to be detected
    */
  def bitmap(d: KeyDomain, bytes: Array[Byte], bits: Int): Either[Refusal, ValueFilter] = d match {
    case long: LongDomain if LongBitmap.suits(long) =>
      val read = bits match {
        case 32 => read32(bytes)
        case 64 => read64(bytes)
        // A 64-bit bitmap starts with a count, which is seldom the cookie of a 32-bit one; its further bytes then
        // hardly are a valid 32-bit bitmap.
        case _ if hasCookie(bytes) => read32(bytes).left.flatMap(_ => read64(bytes))
        case _ => read64(bytes)
      }
      read.left.map(Refusal(_, isDamaged = true)).flatMap {
        case None => Right(Nothing)
        // The numbers of a bitmap are unsigned: a negative one is above the greatest long.
        case Some(r) if r.least < 0 => unfit(outside(d, java.lang.Long.toUnsignedString(r.least)))
        case Some(r) if r.greatest > long.greatest => unfit(outside(d, r.greatest.toString))
        case Some(r) => Right(all(r.as(long), nulls = false))
      }
    case _ => unfit(s"a bitmap holds integers, which values of type ${d.dataType.catalogString} are not")
  }

  private def unfit(why: String) = Left(Refusal(why, isDamaged = false))

  private def outside(d: KeyDomain, number: String): String =
    s"the bitmap holds $number, which is no ${d.dataType.catalogString} (a roaring bitmap has no negative numbers)"

  private def hasCookie(b: Array[Byte]): Boolean =
    b.length >= 8 && (b(0) == 0x3a || b(0) == 0x3b) && b(1) == 0x30

  private def zeros(b: Array[Byte], from: Int, until: Int): Boolean = (from until until).forall(b(_) == 0)

  /** None for an empty bitmap. */
  private def read64(b: Array[Byte]): Either[String, Option[LongBitmap]] =
    if (b.length == 8 && zeros(b, 0, 8)) Right(None) else LongBitmap.decode(numbers, b).map(Some(_))

  private def read32(b: Array[Byte]): Either[String, Option[LongBitmap]] =
    if (b.length == 8 && hasCookie(b) && b(0) == 0x3a && zeros(b, 2, 8)) Right(None)
    else {
      // Read as a 64-bit bitmap of one part: a count of 1 and an upper half of 0.
      val all = new Array[Byte](b.length + 12)
      all(0) = 1
      System.arraycopy(b, 0, all, 12, b.length)
      LongBitmap.decode(numbers, all).map(Some(_))
    }

  private def sortedLongs(keys: Iterator[AnyRef]): Array[Long] =
    SortedLongs.fromUnsorted(keys.map(_.asInstanceOf[java.lang.Long].longValue).toArray)

  private def distinct(d: KeyDomain, keys: Iterator[AnyRef]): Array[AnyRef] = {
    val all = new java.util.TreeSet[AnyRef]((a: AnyRef, b: AnyRef) => d.compare(a, b))
    keys.foreach(all.add)
    all.toArray
  }
}
