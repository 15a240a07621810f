package org.dynamicfilters.filter

import org.apache.spark.sql.types._

/** Filters of the sets that users give: unlike those of joins they are never reduced to less exact ones. */
object UserForms {
  import ValueFilter._

  /** A bloom filter of fewer values is made as large as for so many: a KiB or two. */
  private val fewest = 1024

  /** Of the numbers of a bitmap, whatever the filter's type. */
  private val numbers = new LongDomain(LongType)

  /** Why a form cannot be a filter. */
  sealed trait Refusal {
    def reason: String
  }
  object Refusal {

    /** It is wrong in itself. */
    final case class Damaged(reason: String) extends Refusal

    /** Some of it is no value of the filter's type. */
    final case class Unfit(reason: String) extends Refusal
  }

  /** Exactly these keys, and null or not.
    *
    * @param keys
    *   in any order, doubles allowed
    * @param mostValues
    *   above it integers are held as a bitmap, if they lie close enough to each other
    */
  def values(d: KeyDomain, keys: Iterator[AnyRef], nulls: Boolean, mostValues: Int): ValueFilter = d match {
    case long: LongDomain => longs(long, keys.map(_.asInstanceOf[java.lang.Long].longValue).toArray, nulls, mostValues)
    case o: ObjectDomain =>
      val sorted = distinct(o, keys)
      if (sorted.isEmpty) none(d, nulls)
      else members(ObjectValues(o, sorted), closed(d, sorted.head, sorted.last, nulls))
  }

  /** As [[values]], of keys of a [[LongDomain]]; the array is sorted. */
  def longs(d: LongDomain, codes: Array[Long], nulls: Boolean, mostValues: Int): ValueFilter = {
    val sorted = LongValues(d, SortedLongs.fromUnsorted(codes))
    if (sorted.size == 0) none(d, nulls)
    else {
      val asBitmap = sorted.size > mostValues && LongBitmap.suits(d) && LongBitmap.pays(sorted)
      val keys = if (asBitmap) LongBitmap.build(d, sorted.sorted) else sorted
      members(keys, closed(d, Long.box(keys.least), Long.box(keys.greatest), nulls))
    }
  }

  /** These keys and some others, and null or not. */
  def bloom(d: KeyDomain, keys: Iterator[AnyRef], nulls: Boolean, fpp: Double): ValueFilter = d match {
    case long: LongDomain =>
      val sorted = SortedLongs.fromUnsorted(keys.map(_.asInstanceOf[java.lang.Long].longValue).toArray)
      if (sorted.isEmpty) none(d, nulls)
      else
        members(Bloom.build(long, sorted, fpp, fewest), closed(d, Long.box(sorted.head), Long.box(sorted.last), nulls))
    case o: ObjectDomain =>
      val sorted = distinct(o, keys)
      if (sorted.isEmpty) none(d, nulls)
      else {
        val codes = SortedLongs.fromUnsorted(sorted.map(Bloom.code(o, _)))
        members(Bloom.build(o, codes, fpp, fewest), closed(d, sorted.head, sorted.last, nulls))
      }
  }

  /** The members of a roaring bitmap in its portable serialization.
    *
    * @param bits
    *   32 or 64; 0 if the bytes shall tell
    */
  def bitmap(d: KeyDomain, bytes: Array[Byte], bits: Int): Either[Refusal, ValueFilter] = d match {
    case long: LongDomain if LongBitmap.suits(long) =>
      val read = bits match {
        case 32 => read32(bytes)
        case 64 => read64(bytes)
        // What one of 64 bits starts with, a count, is seldom a cookie, and what follows is then hardly a bitmap of 32 bits.
        case _ if hasCookie(bytes) => read32(bytes).left.flatMap(_ => read64(bytes))
        case _ => read64(bytes)
      }
      read.left.map(Refusal.Damaged(_)).flatMap {
        case None => Right(Nothing)
        // The numbers of a bitmap have no sign: these are the greatest ones.
        case Some(r) if r.least < 0 => Left(Refusal.Unfit(outside(d, java.lang.Long.toUnsignedString(r.least))))
        case Some(r) if r.greatest > long.greatest => Left(Refusal.Unfit(outside(d, r.greatest.toString)))
        case Some(r) =>
          Right(members(r.as(long), closed(d, Long.box(r.least), Long.box(r.greatest), nulls = false)))
      }
    case _ => Left(Refusal.Unfit(s"a bitmap holds integers, which values of type ${d.dataType.catalogString} are not"))
  }

  private def outside(d: KeyDomain, number: String): String =
    s"the bitmap holds $number, which is no ${d.dataType.catalogString} (a roaring bitmap has no negative numbers)"

  private def hasCookie(b: Array[Byte]): Boolean =
    b.length >= 8 && (b(0) == 0x3a || b(0) == 0x3b) && b(1) == 0x30

  private def zeros(b: Array[Byte], from: Int, until: Int): Boolean = (from until until).forall(b(_) == 0)

  /** None if it is empty. */
  private def read64(b: Array[Byte]): Either[String, Option[LongBitmap]] =
    if (b.length == 8 && zeros(b, 0, 8)) Right(None) else LongBitmap.decode(numbers, b).map(Some(_))

  private def read32(b: Array[Byte]): Either[String, Option[LongBitmap]] =
    if (b.length == 8 && hasCookie(b) && b(0) == 0x3a && zeros(b, 2, 8)) Right(None)
    else {
      // The same as the only part of one of 64 bits: a count of 1, and an upper half of 0.
      val all = new Array[Byte](b.length + 12)
      all(0) = 1
      System.arraycopy(b, 0, all, 12, b.length)
      LongBitmap.decode(numbers, all).map(Some(_))
    }

  private def distinct(d: ObjectDomain, keys: Iterator[AnyRef]): Array[AnyRef] = {
    val all = new java.util.TreeSet[AnyRef]((a: AnyRef, b: AnyRef) => d.compare(a, b))
    keys.foreach(all.add)
    all.toArray
  }

  private def closed(d: KeyDomain, lo: AnyRef, hi: AnyRef, nulls: Boolean): Range =
    Range(d, Some(End(lo, inclusive = true)), Some(End(hi, inclusive = true)), nulls)
}
