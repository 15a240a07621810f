package org.dynamicfilters.filter

/** Bounds of one column in a file, row group or page. They may be wider than the values, because statistics are
  * truncated, never narrower.
  *
  * Code that makes bounds from statistics handles two traps. An absent null count means `mayHaveNulls`. Parquet leaves
  * NaN out of its minimum and maximum, so the maximum of a float or double column is NaN or unknown.
  *
  * @param min no non-null value is less than this key; null if unknown
  * @param max no non-null value is greater than this key; null if unknown
  * @param mayHaveNulls false only if no row is SQL NULL
  * @param mayHaveValues false only if every row is SQL NULL
  */
final case class ColumnBounds(min: AnyRef, max: AnyRef, mayHaveNulls: Boolean, mayHaveValues: Boolean) {

  /** The bounds of the rows that are not SQL NULL. */
  def ofValues: ColumnBounds = copy(mayHaveNulls = false)
}

object ColumnBounds {

  /** Nothing is known. */
  val unknown: ColumnBounds = ColumnBounds(null, null, mayHaveNulls = true, mayHaveValues = true)

  /** Every row is SQL NULL. */
  val onlyNulls: ColumnBounds = ColumnBounds(null, null, mayHaveNulls = true, mayHaveValues = false)

  /** Every row has this key, or is SQL NULL if the key is null. */
  def exact(key: AnyRef): ColumnBounds =
    if (key == null) onlyNulls else ColumnBounds(key, key, mayHaveNulls = false, mayHaveValues = true)

  /** Bounds of the rows of both sides. */
  def merge(a: ColumnBounds, b: ColumnBounds)(domain: KeyDomain): ColumnBounds = {
    val nulls = a.mayHaveNulls || b.mayHaveNulls
    // A side without values has no bounds.
    if (!a.mayHaveValues) b.copy(mayHaveNulls = nulls)
    else if (!b.mayHaveValues) a.copy(mayHaveNulls = nulls)
    else {
      val min = if (a.min == null || b.min == null) null else if (domain.compare(a.min, b.min) <= 0) a.min else b.min
      val max = if (a.max == null || b.max == null) null else if (domain.compare(a.max, b.max) >= 0) a.max else b.max
      ColumnBounds(min, max, nulls, mayHaveValues = true)
    }
  }
}
