package org.dynamicfilters.filter

import java.util.function.LongPredicate

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.vectorized.ColumnVector

/** Which values of one column can matter to a query. Immutable.
  *
  * A filter may pass more rows than necessary, never fewer. Likewise `couldPass` is false, and `allPass` and `implies`
  * are true, only if that is certain.
  */
sealed trait ValueFilter extends Serializable {

  /** Whether a row with this key passes; null = SQL NULL. */
  def passes(key: AnyRef): Boolean

  /** As [[passes]] for a column of a row, without creating a key. */
  def passesRow(row: SpecializedGetters, ordinal: Int): Boolean

  /** As [[passes]] for a non-null key that need not be a copy. */
  private[dynamicfilters] def passesObject(key: AnyRef): Boolean = passes(key)

  /** As [[passes]] for the codes of non-null values; only for a filter of a [[LongDomain]]. */
  private[dynamicfilters] def longTest: LongPredicate = code => passes(Long.box(code))

  /** False only if provably no row within these bounds passes. */
  def couldPass(b: ColumnBounds): Boolean

  /** True only if provably every row within these bounds passes. */
  def allPass(b: ColumnBounds): Boolean

  /** Whether one of these keys (the values of a dictionary) passes, or NULL if there may be NULLs. */
  def couldPassAny(keys: Iterator[AnyRef], mayHaveNulls: Boolean): Boolean =
    (mayHaveNulls && passes(null)) || keys.exists(passes)

  /** The values that pass, if they are known one by one and NULL does not pass: used for lookups in Parquet bloom
    * filters. None for a floating zero or NaN too, which have several bit patterns and so several hashes.
    */
  def points: Option[Seq[AnyRef]] = None

  /** Narrows a selection of the vector's rows to those that pass. Keeps all rows if the vector's type is not the
    * filter's.
    */
  def select(v: ColumnVector, s: Selection): Unit

  /** True only if provably every row that passes this filter passes the other one too. False for forms that the filter
    * does not know.
    */
  def implies(other: ValueFilter): Boolean

  /** The name of the form in reports: all, nothing, range, range+in, range+bitmap, range+bloom, or several of these joined. */
  def form: String

  /** The condition as users read it in a plan: `true`, `k <= 50`, `50 <= k <= 1000`, `k = 5`, `(k < 10 OR k IS NULL)`. */
  def expression(column: String): String

  /** Whether the condition has values of the data. */
  final def hasValues: Boolean = this != ValueFilter.All && this != ValueFilter.Nothing

  /** The condition, without values of the data unless `showValues`. */
  final def shown(column: String, showValues: Boolean): String =
    if (showValues || !hasValues) expression(column) else ValueFilter.Hidden

  /** The conjunction of two filters. Throws IllegalArgumentException if their types differ.
    *
    * A form combines itself with its own form and with the forms above it in this file. It leaves the forms below it to
    * them: `other.and(this)`. [[ValueFilter.Both]] is the last one.
    */
  def and(other: ValueFilter): ValueFilter

  /** The same condition for a column of another type, for joins that compare their keys after a widening cast. Between
    * integer types, values that the other type lacks are left out. All for any other pair of types.
    */
  def convert(target: KeyDomain): ValueFilter
}

object ValueFilter {

  /** In place of a condition whose values are not shown. */
  val Hidden = "hidden"

  /** Everything passes, because nothing is known yet. */
  case object All extends ValueFilter {
    override def passes(key: AnyRef): Boolean = true
    override def passesRow(row: SpecializedGetters, ordinal: Int): Boolean = true
    private[dynamicfilters] override def longTest: LongPredicate = _ => true
    override def couldPass(b: ColumnBounds): Boolean = b.mayHaveValues || b.mayHaveNulls
    override def allPass(b: ColumnBounds): Boolean = true
    override def select(v: ColumnVector, s: Selection): Unit = ()
    override def implies(other: ValueFilter): Boolean = other match {
      case All => true
      case r: Range => r.hasAllValues && r.nulls
      case m: Members => Range(m.domain, None, None, nulls = true).implies(m)
      case b: Both => b.isImpliedBy(this)
      case _ => false
    }
    override def form: String = "all"
    override def expression(column: String): String = "true"
    override def and(other: ValueFilter): ValueFilter = other
    override def convert(target: KeyDomain): ValueFilter = this
  }

  /** Nothing passes, because no row matters. */
  case object Nothing extends ValueFilter {
    override def passes(key: AnyRef): Boolean = false
    override def passesRow(row: SpecializedGetters, ordinal: Int): Boolean = false
    override def couldPass(b: ColumnBounds): Boolean = false
    override def allPass(b: ColumnBounds): Boolean = !b.mayHaveValues && !b.mayHaveNulls
    override def points: Option[Seq[AnyRef]] = Some(Nil)
    override def select(v: ColumnVector, s: Selection): Unit = s.count = 0
    override def implies(other: ValueFilter): Boolean = true
    override def form: String = "nothing"
    override def expression(column: String): String = "false"
    override def and(other: ValueFilter): ValueFilter = this
    override def convert(target: KeyDomain): ValueFilter = this
  }

  /** Only SQL NULL passes, for example for a TopK with nulls first whose heap is full of NULLs. */
  final case class NullsOnly(domain: KeyDomain) extends ValueFilter {
    override def passes(key: AnyRef): Boolean = key == null
    override def passesRow(row: SpecializedGetters, ordinal: Int): Boolean = row.isNullAt(ordinal)
    override def couldPass(b: ColumnBounds): Boolean = b.mayHaveNulls
    override def allPass(b: ColumnBounds): Boolean = !b.mayHaveValues
    override def select(v: ColumnVector, s: Selection): Unit =
      if (v.dataType == domain.dataType) SelectLoops.nullsOnly(v, s)
    override def implies(other: ValueFilter): Boolean = other match {
      case All => true
      case NullsOnly(d) => d == domain
      case r: Range => r.domain == domain && r.nulls
      case m: Members => m.domain == domain && m.nulls
      case b: Both => b.isImpliedBy(this)
      case _ => false
    }
    override def form: String = "range"
    override def expression(column: String): String = s"$column IS NULL"
    override def and(other: ValueFilter): ValueFilter = other match {
      case All => this
      case Nothing => Nothing
      case NullsOnly(d) => sameDomain(domain, d); this
      case _ => other.and(this)
    }
    override def convert(target: KeyDomain): ValueFilter = Conversion.ofIntegers(this, domain, target)(NullsOnly(_))
  }

  /** The values between two ends, and NULL if `nulls`. Use [[range]] to get the simplest filter for these ends. Throws
    * IllegalArgumentException if the key of an end is null.
    *
    * @param domain the type of the column; both keys are keys of it
    * @param lower None = no value is too small
    * @param upper None = no value is too great
    * @param nulls whether SQL NULL passes
    */
  final case class Range(domain: KeyDomain, lower: Option[End], upper: Option[End], nulls: Boolean)
      extends ValueFilter {
    require(lower.forall(_.key != null) && upper.forall(_.key != null), "an end of a range has no key")

    /** The ends as two numbers; null for an [[ObjectDomain]]. */
    private[filter] val longs: LongInterval = domain match {
      case d: LongDomain => LongInterval.between(d, lower, upper)
      case _: ObjectDomain => null
    }

    private[filter] def hasNoValues: Boolean = domain match {
      case _: LongDomain => longs.isEmpty
      case d: ObjectDomain =>
        upper.exists(u => !u.inclusive && d.isLeast(u.key)) ||
        lower.exists(l => upper.exists(u => crossed(d.compare(l.key, u.key), l, u)))
    }

    private def crossed(order: Int, l: End, u: End): Boolean =
      order > 0 || (order == 0 && !(l.inclusive && u.inclusive))

    private[filter] def hasAllValues: Boolean = domain match {
      case d: LongDomain => longs.lo == d.least && longs.hi == d.greatest
      case d: ObjectDomain => upper.isEmpty && lower.forall(e => e.inclusive && d.isLeast(e.key))
    }

    // Called for every row, so without a closure over the Option.
    private def aboveLower(key: AnyRef): Boolean = lower.isEmpty || {
      val c = domain.compare(key, lower.get.key)
      c > 0 || (c == 0 && lower.get.inclusive)
    }

    private def belowUpper(key: AnyRef): Boolean = upper.isEmpty || {
      val c = domain.compare(key, upper.get.key)
      c < 0 || (c == 0 && upper.get.inclusive)
    }

    /** As [[passes]] without boxing, for the code of a value. Only for a [[LongDomain]]. */
    def passesLong(code: Long): Boolean = code >= longs.lo && code <= longs.hi

    private[dynamicfilters] override def passesObject(key: AnyRef): Boolean = aboveLower(key) && belowUpper(key)

    private[dynamicfilters] override def longTest: LongPredicate = passesLong(_)

    override def passes(key: AnyRef): Boolean =
      if (key == null) nulls
      else if (longs != null) passesLong(key.asInstanceOf[java.lang.Long].longValue)
      else passesObject(key)

    override def passesRow(row: SpecializedGetters, ordinal: Int): Boolean =
      if (row.isNullAt(ordinal)) nulls
      else
        domain match {
          case d: LongDomain => passesLong(d.longFromRow(row, ordinal))
          case d: ObjectDomain => passesObject(d.viewOfRow(row, ordinal))
        }

    override def couldPass(b: ColumnBounds): Boolean =
      (nulls && b.mayHaveNulls) || (b.mayHaveValues && overlaps(b.min, b.max))

    private def overlaps(min: AnyRef, max: AnyRef): Boolean =
      if (longs != null)
        !longs.isEmpty && (min == null || unbox(min) <= longs.hi) && (max == null || unbox(max) >= longs.lo)
      else
        !hasNoValues && (min == null || belowUpper(min)) && (max == null || aboveLower(max))

    override def allPass(b: ColumnBounds): Boolean =
      (nulls || !b.mayHaveNulls) && (!b.mayHaveValues || contains(b.min, b.max))

    private def contains(min: AnyRef, max: AnyRef): Boolean =
      if (longs != null) {
        val d = domain.asInstanceOf[LongDomain]
        (if (min == null) longs.lo == d.least else unbox(min) >= longs.lo) &&
        (if (max == null) longs.hi == d.greatest else unbox(max) <= longs.hi)
      } else
        (if (min == null) lower.isEmpty else aboveLower(min)) &&
        (if (max == null) upper.isEmpty else belowUpper(max))

    override def points: Option[Seq[AnyRef]] =
      if (nulls) None
      else if (hasNoValues) Some(Nil)
      else
        domain match {
          case d: LongDomain =>
            if (longs.lo == longs.hi && !d.hasManyEncodings(longs.lo)) Some(Seq(Long.box(longs.lo))) else None
          case d: ObjectDomain =>
            for (l <- lower; u <- upper; if d.compare(l.key, u.key) == 0) yield Seq(l.key)
        }

    override def select(v: ColumnVector, s: Selection): Unit =
      if (v.dataType == domain.dataType) SelectLoops.range(this, v, s)

    override def implies(other: ValueFilter): Boolean = other match {
      case All => true
      case Nothing => hasNoValues && !nulls
      case NullsOnly(d) => d == domain && hasNoValues
      case r: Range => r.domain == domain && (r.nulls || !nulls) && (hasNoValues || within(r))
      case m: Members => m.domain == domain && (m.nulls || !nulls) && (hasNoValues || m.containsAllOf(this))
      case b: Both => b.isImpliedBy(this)
      case _ => false
    }

    /** Whether all values of this non-empty range lie in another one. */
    private def within(r: Range): Boolean =
      if (longs != null) longs.lo >= r.longs.lo && longs.hi <= r.longs.hi
      else
        r.lower.forall(theirs => lower.exists(ours => asTight(ours, theirs, domain.compare(ours.key, theirs.key)))) &&
        r.upper.forall(theirs => upper.exists(ours => asTight(ours, theirs, domain.compare(theirs.key, ours.key))))

    /** `inner` is positive if our key lies further inside than theirs. */
    private def asTight(ours: End, theirs: End, inner: Int): Boolean =
      inner > 0 || (inner == 0 && (theirs.inclusive || !ours.inclusive))

    override def form: String = "range"

    override def expression(column: String): String = RangeText.expression(this, column)

    override def and(other: ValueFilter): ValueFilter = other match {
      case All => this
      case Nothing => Nothing
      case NullsOnly(d) => sameDomain(d, domain); if (nulls) other else Nothing
      case r: Range => intersect(r).simplest
      case _ => other.and(this)
    }

    override def convert(target: KeyDomain): ValueFilter =
      Conversion.ofIntegers(this, domain, target)(Conversion.range(this, _).simplest)

    /** The intersection of two ranges; may be empty. */
    private[filter] def intersect(r: Range): Range = {
      sameDomain(domain, r.domain)
      val lo = tighter(lower, r.lower)(domain.compare(_, _) > 0)
      val hi = tighter(upper, r.upper)(domain.compare(_, _) < 0)
      Range(domain, lo, hi, nulls && r.nulls)
    }

    private[filter] def simplest: ValueFilter =
      if (hasNoValues) none(domain, nulls) else if (nulls && hasAllValues) All else this
  }

  /** The values of a set that also lie within a range, and NULL if the range passes it, for example the keys of a
    * join's build side. Use [[members]] to get the simplest filter for them.
    *
    * @param range has both ends and is not empty. If the set is exact, both ends are inclusive and members of the set.
    *   Throws IllegalArgumentException otherwise
    * @param keys of the same domain; may have members outside of the range
    */
  final case class Members(range: Range, keys: KeySet) extends ValueFilter with MembersEvaluation {
    MemberAlgebra.check(range, keys)
  }

  /** The conjunction of two filters that cannot be merged, such as two Bloom filters. Made by `and`. */
  final case class Both(left: ValueFilter, right: ValueFilter) extends ValueFilter {
    override def passes(key: AnyRef): Boolean = left.passes(key) && right.passes(key)

    override def passesRow(row: SpecializedGetters, ordinal: Int): Boolean =
      left.passesRow(row, ordinal) && right.passesRow(row, ordinal)

    private[dynamicfilters] override def passesObject(key: AnyRef): Boolean =
      left.passesObject(key) && right.passesObject(key)

    private[dynamicfilters] override def longTest: LongPredicate = left.longTest.and(right.longTest)

    override def couldPass(b: ColumnBounds): Boolean =
      if (b.mayHaveNulls && b.mayHaveValues)
        // One side may pass only nulls and the other only values.
        Seq(b.copy(mayHaveNulls = false), b.copy(mayHaveValues = false)).exists(couldPass)
      else left.couldPass(b) && right.couldPass(b)

    override def allPass(b: ColumnBounds): Boolean = left.allPass(b) && right.allPass(b)

    override def points: Option[Seq[AnyRef]] =
      left.points.map(_.filter(right.passes)).orElse(right.points.map(_.filter(left.passes)))

    override def select(v: ColumnVector, s: Selection): Unit = {
      left.select(v, s)
      if (s.count > 0) right.select(v, s)
    }

    override def implies(other: ValueFilter): Boolean = other match {
      case b: Both => b.isImpliedBy(this)
      case _ => left.implies(other) || right.implies(other)
    }

    private[filter] def isImpliedBy(other: ValueFilter): Boolean = other.implies(left) && other.implies(right)

    /** The forms of the parts, each once. */
    override def form: String = (left.form.split('+') ++ right.form.split('+')).distinct.mkString("+")

    override def expression(column: String): String = s"${left.expression(column)} AND ${right.expression(column)}"

    override def and(other: ValueFilter): ValueFilter = other match {
      case All => this
      case Nothing => Nothing
      case NullsOnly(_) | _: Range => left.and(other).and(right.and(other))
      case b: Both => and(b.left).and(b.right)
      case _ =>
        (left.and(other), right.and(other)) match {
          case (_: Both, _: Both) => Both(this, other)
          // Prefers the side that could be merged: one filter less.
          case (_: Both, simpler) => left.and(simpler)
          case (simpler, _) => simpler.and(right)
        }
    }

    override def convert(target: KeyDomain): ValueFilter = left.convert(target).and(right.convert(target))
  }

  /** The simplest filter for the values of a set within a range, and NULL if the range passes it: Nothing, NullsOnly,
    * All, a Range or Members. Throws IllegalArgumentException if the domains differ, or if a set that is not exact
    * comes without both ends.
    */
  def members(keys: KeySet, within: Range): ValueFilter = MemberAlgebra.simplest(keys, within)

  /** The simplest filter for these ends: All, Nothing, NullsOnly or a Range. */
  def range(domain: KeyDomain, lower: Option[End], upper: Option[End], nulls: Boolean): ValueFilter =
    Range(domain, lower, upper, nulls).simplest

  /** The values from `least` to `greatest`, both included. */
  private[filter] def closed(domain: KeyDomain, least: AnyRef, greatest: AnyRef, nulls: Boolean): Range =
    Range(domain, Some(End(least, inclusive = true)), Some(End(greatest, inclusive = true)), nulls)

  /** Passes no value, and NULL if `nulls`. */
  private[filter] def none(domain: KeyDomain, nulls: Boolean): ValueFilter = if (nulls) NullsOnly(domain) else Nothing

  private def tighter(a: Option[End], b: Option[End])(isTighter: (AnyRef, AnyRef) => Boolean): Option[End] =
    (a, b) match {
      case (Some(x), Some(y)) =>
        if (isTighter(x.key, y.key)) a
        else if (isTighter(y.key, x.key)) b
        else if (x.inclusive) b // the same key: an exclusive end is the tighter one
        else a
      case _ => a.orElse(b)
    }

  private def unbox(key: AnyRef): Long = key.asInstanceOf[java.lang.Long].longValue

  private[filter] def sameDomain(a: KeyDomain, b: KeyDomain): Unit =
    require(
      a == b,
      s"a filter of ${a.dataType.catalogString} and one of ${b.dataType.catalogString} have nothing in common"
    )
}
