package org.dynamicfilters.filter

import java.util.function.LongPredicate

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.vectorized.ColumnVector

/** The methods of [[ValueFilter.Members]], in a trait of their own to keep files small. */
private[filter] trait MembersEvaluation { self: ValueFilter.Members =>
  import MembersEvaluation._
  import ValueFilter._

  final def domain: KeyDomain = range.domain

  /** Whether SQL NULL passes. */
  final def nulls: Boolean = range.nulls

  def passes(key: AnyRef): Boolean = if (key == null) nulls else range.passes(key) && keys.contains(key)

  def passesRow(row: SpecializedGetters, ordinal: Int): Boolean =
    if (row.isNullAt(ordinal)) nulls
    else
      domain match {
        case d: LongDomain =>
          val code = d.longFromRow(row, ordinal)
          range.passesLong(code) && keys.longTest.test(code)
        case d: ObjectDomain => passesObject(d.viewOfRow(row, ordinal))
      }

  private[dynamicfilters] override def passesObject(key: AnyRef): Boolean = keys match {
    // The set first: it excludes most rows, and one hash costs less than two comparisons.
    case o: ObjectValues => o.lookup.contains(KeyBytes.view(o.domain, key)) && range.passesObject(key)
    case _ => range.passesObject(key) && keys.contains(key)
  }

  private[dynamicfilters] override def longTest: LongPredicate = {
    val lookup = keys.longTest
    code => range.passesLong(code) && lookup.test(code)
  }

  def couldPass(b: ColumnBounds): Boolean =
    (nulls && b.mayHaveNulls) || (b.mayHaveValues && hasMember(b.min, b.max))

  /** Whether there may be a member from min to max, either of which may be null for unknown. */
  private def hasMember(min: AnyRef, max: AnyRef): Boolean = keys match {
    case s: LongSet => withinRange(min, max)((lo, hi) => s.ceiling(lo).exists(_ <= hi))
    case i: LongIntervals => withinRange(min, max)(i.hasBetween)
    case o: ObjectValues =>
      val lo = if (min == null || domain.compare(min, least) < 0) least else min
      val hi = if (max == null || domain.compare(max, greatest) > 0) greatest else max
      domain.compare(lo, hi) <= 0 && o.hasBetween(lo, hi)
    case _: Bloom =>
      if (isPoint(min, max)) passes(min)
      else range.couldPass(ColumnBounds(min, max, mayHaveNulls = false, mayHaveValues = true))
  }

  private def withinRange(min: AnyRef, max: AnyRef)(has: (Long, Long) => Boolean): Boolean = {
    val lo = if (min == null) range.longs.lo else math.max(range.longs.lo, long(min))
    val hi = if (max == null) range.longs.hi else math.min(range.longs.hi, long(max))
    lo <= hi && has(lo, hi)
  }

  def allPass(b: ColumnBounds): Boolean =
    (nulls || !b.mayHaveNulls) && (!b.mayHaveValues || containsAll(b.min, b.max))

  private def containsAll(min: AnyRef, max: AnyRef): Boolean =
    if (min == null || max == null) false
    else if (isPoint(min, max)) passes(min)
    else
      range.longs != null && {
        val (lo, hi) = (long(min), long(max))
        lo <= hi && range.passesLong(lo) && range.passesLong(hi) && MemberAlgebra.hasAll(keys, lo, hi)
      }

  /** Whether all values of a non-empty range are members. */
  private[filter] def containsAllOf(r: Range): Boolean =
    if (r.longs != null) containsAll(Long.box(r.longs.lo), Long.box(r.longs.hi)) || containsEach(r.longs)
    else
      r.lower.exists(l => r.upper.exists(u => domain.compare(l.key, u.key) == 0 && passes(l.key)))

  /** The same for a bloom filter, which is asked for each number of a short range. */
  private def containsEach(r: LongInterval): Boolean = keys match {
    case b: Bloom =>
      val span = r.hi - r.lo
      span >= 0 && span <= MemberAlgebra.mostCompared && range.passesLong(r.lo) && range.passesLong(r.hi) &&
      (r.lo to r.hi).forall(b.bits.mightContainLong)
    case _ => false
  }

  private def isPoint(min: AnyRef, max: AnyRef): Boolean =
    min != null && max != null && domain.compare(min, max) == 0

  override def points: Option[Seq[AnyRef]] =
    if (nulls) None
    else
      keys match {
        case s: LongSet if s.countBetween(range.longs.lo, range.longs.hi) <= mostPoints =>
          s.between(range.longs.lo, range.longs.hi)
            .map(_.toArray.toSeq)
            .filterNot(_.exists(s.domain.hasManyEncodings))
            .map(_.map(Long.box(_): AnyRef))
        case o: ObjectValues if o.size <= mostPoints => Some(o.sorted.toSeq.filter(range.passesObject))
        case _ => None
      }

  def select(v: ColumnVector, s: Selection): Unit =
    if (v.dataType == domain.dataType) SelectLoops.members(this, v, s)

  def implies(other: ValueFilter): Boolean = other match {
    case All => true
    case r: Range => range.implies(r)
    // If the other set contains our whole range, it contains our set.
    case m: Members => range.implies(m) || (range.implies(m.range) && MemberAlgebra.isSubset(this, m.keys))
    case b: Both => b.isImpliedBy(this)
    case _ => false
  }

  def form: String = s"range+${keys.form}"

  def expression(column: String): String = {
    val values = s"${range.copy(nulls = false).expression(column)} AND $column IN (${keys.text})"
    if (nulls) s"($values OR $column IS NULL)" else values
  }

  def and(other: ValueFilter): ValueFilter = other match {
    case All => this
    case Nothing => Nothing
    case NullsOnly(d) => sameDomain(d, domain); if (nulls) other else Nothing
    case r: Range => ValueFilter.members(keys, range.intersect(r))
    case m: Members => MemberAlgebra.and(this, m)
    case _ => other.and(this)
  }

  def convert(target: KeyDomain): ValueFilter =
    Conversion.ofIntegers(this, domain, target)(Conversion.members(this, _))

  private def least: AnyRef = range.lower.get.key
  private def greatest: AnyRef = range.upper.get.key
}

private[filter] object MembersEvaluation {

  /** More lookups in a Parquet bloom filter cost more than they save. */
  val mostPoints = 1000

  private def long(key: AnyRef): Long = key.asInstanceOf[java.lang.Long].longValue
}

/** Combines sets and ranges into the simplest filter. Used by [[ValueFilter]]. */
private[filter] object MemberAlgebra {
  import ValueFilter._

  /** Sets up to this size are intersected with other filters value by value. */
  val mostCompared = 100000

  /** Whether provably all numbers from lo to hi are members; lo <= hi. */
  def hasAll(keys: KeySet, lo: Long, hi: Long): Boolean = keys match {
    // If the subtraction overflows, the difference is negative or, modulo 2^64, more than a set can have.
    case s: LongSet => s.countBetween(lo, hi) - 1 == hi - lo
    case i: LongIntervals => i.hasAll(lo, hi)
    case _ => false
  }

  def check(range: Range, keys: KeySet): Unit = {
    sameDomain(range.domain, keys.domain)
    require(range.lower.isDefined && range.upper.isDefined, "a set without both ends")
    require(!range.hasNoValues, "a set outside of its range")
    if (keys.isExact)
      Seq(range.lower, range.upper).flatten.foreach { e =>
        require(e.inclusive && keys.contains(e.key), "an end of a set that is no member of it")
      }
  }

  def simplest(keys: KeySet, within: Range): ValueFilter = {
    sameDomain(within.domain, keys.domain)
    if (within.hasNoValues) none(within.domain, within.nulls)
    else
      keys match {
        case s: LongSet if s.size > 0 => longs(s, within)
        case o: ObjectValues =>
          val inside = o.within(within)
          if (inside.size == 0) none(within.domain, within.nulls)
          else exact(inside, closed(within.domain, inside.sorted.head, inside.sorted.last, within.nulls))
        case b: Bloom => bloom(b, within)
        case i: LongIntervals =>
          i.between(within.longs.lo, within.longs.hi).fold(none(within.domain, within.nulls)) { inside =>
            exact(inside, closed(within.domain, Long.box(inside.ends.head), Long.box(inside.ends.last), within.nulls))
          }
        case _ => none(within.domain, within.nulls)
      }
  }

  private def longs(s: LongSet, within: Range): ValueFilter = {
    val ends = for {
      lo <- s.ceiling(within.longs.lo)
      hi <- s.floor(within.longs.hi)
      if lo <= hi
    } yield (lo, hi)
    ends.fold(none(within.domain, within.nulls)) { case (lo, hi) =>
      val range = closed(within.domain, Long.box(lo), Long.box(hi), within.nulls)
      if (hasAll(s, lo, hi)) range.simplest
      else
        s match {
          case v: LongValues => Members(range, v.between(lo, hi).get)
          // Cutting a bitmap would copy it, for no gain: the range is tested first.
          case b => Members(range, b)
        }
    }
  }

  /** @param range from the least to the greatest member */
  private def exact(keys: KeySet, range: Range): ValueFilter =
    if (keys.size == 1) range.simplest else Members(range, keys)

  private def bloom(b: Bloom, within: Range): ValueFilter = {
    require(within.lower.isDefined && within.upper.isDefined, "a bloom filter without both ends")
    val point =
      if (within.longs != null) Option.when(within.longs.lo == within.longs.hi)(Long.box(within.longs.lo))
      else within.lower.map(_.key).filter(k => within.domain.compare(k, within.upper.get.key) == 0)
    point match {
      case Some(k) if b.contains(k) => closed(within.domain, k, k, within.nulls).simplest
      case Some(_) => none(within.domain, within.nulls)
      case None => Members(within, b)
    }
  }

  /** True only if provably all values that pass `a` are in `b`. */
  def isSubset(a: Members, b: KeySet): Boolean = (a.keys, b) match {
    case (x, _) if (x eq b) || x == b => true
    case (x: LongSet, y) if x.size <= mostCompared => inside(x, a.range).forall(code => y.contains(Long.box(code)))
    case (x: LongBitmap, y: LongBitmap) => x.isSubsetOf(y)
    case (x: LongIntervals, y) =>
      x.between(a.range.longs.lo, a.range.longs.hi).forall(_.each.forall { case (lo, hi) => hasAll(y, lo, hi) })
    case (x: ObjectValues, y) => x.within(a.range).sorted.forall(y.contains)
    case _ => false
  }

  private def inside(s: LongSet, r: Range): Array[Long] =
    s.between(r.longs.lo, r.longs.hi).fold(Array.emptyLongArray)(_.toArray)

  def and(a: Members, b: Members): ValueFilter = {
    val range = a.range.intersect(b.range)
    (a.keys, b.keys) match {
      case _ if range.hasNoValues => none(range.domain, range.nulls)
      case (x, y) if x == y => members(x, range)
      case (x: LongBitmap, y: LongBitmap) =>
        x.and(y).fold(none(range.domain, range.nulls))(members(_, range))
      // Iterates over the smaller set.
      case (x: LongSet, y: LongSet) if x.size <= y.size => narrowed(x, y, range)
      case (x: LongSet, y: LongSet) => narrowed(y, x, range)
      case (x: LongSet, y) if x.size <= mostCompared => narrowed(x, y, range)
      case (x, y: LongSet) if y.size <= mostCompared => narrowed(y, x, range)
      case (x: ObjectValues, y) => narrowed(x, y, range)
      case (x, y: ObjectValues) => narrowed(y, x, range)
      case (x, y) =>
        (members(x, range), members(y, range)) match {
          case (p: Members, q: Members) => Both(p, q)
          // One of the two was simplified to a range, NullsOnly or Nothing.
          case (p, q) => p.and(q)
        }
    }
  }

  private def narrowed(x: LongSet, y: KeySet, range: Range): ValueFilter = {
    val kept = inside(x, range).filter(code => y.contains(Long.box(code)))
    if (kept.isEmpty) none(range.domain, range.nulls)
    else if (x.isInstanceOf[LongBitmap]) members(LongBitmap.build(x.domain, kept), range)
    else members(LongValues(x.domain, kept), range)
  }

  private def narrowed(x: ObjectValues, y: KeySet, range: Range): ValueFilter =
    members(ObjectValues(x.domain, x.sorted.filter(y.contains)), range)
}
