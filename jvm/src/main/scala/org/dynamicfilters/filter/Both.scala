package org.dynamicfilters.filter

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.vectorized.ColumnVector

/** What [[ValueFilter.Both]] answers. */
private[filter] trait BothQuestions { self: ValueFilter.Both =>
  import ValueFilter._

  def passes(key: AnyRef): Boolean = left.passes(key) && right.passes(key)

  def passesRow(row: SpecializedGetters, ordinal: Int): Boolean =
    left.passesRow(row, ordinal) && right.passesRow(row, ordinal)

  def couldPass(b: ColumnBounds): Boolean =
    if (b.mayHaveNulls && b.mayHaveValues)
      // One side may pass nulls only and the other values only.
      Seq(b.copy(mayHaveNulls = false), b.copy(mayHaveValues = false)).exists(couldPass)
    else left.couldPass(b) && right.couldPass(b)

  def allPass(b: ColumnBounds): Boolean = left.allPass(b) && right.allPass(b)

  def points: Option[Seq[AnyRef]] =
    left.points.map(_.filter(right.passes)).orElse(right.points.map(_.filter(left.passes)))

  def select(v: ColumnVector, s: Selection): Unit = {
    left.select(v, s)
    if (s.count > 0) right.select(v, s)
  }

  def implies(other: ValueFilter): Boolean = other match {
    case b: Both => b.isImpliedBy(this)
    case _ => left.implies(other) || right.implies(other)
  }

  private[filter] def isImpliedBy(other: ValueFilter): Boolean = other.implies(left) && other.implies(right)

  /** The forms of the parts, each once. */
  def form: String = (left.form.split('+') ++ right.form.split('+')).distinct.mkString("+")

  def expression(column: String): String = s"${left.expression(column)} AND ${right.expression(column)}"

  def and(other: ValueFilter): ValueFilter = other match {
    case All => this
    case Nothing => Nothing
    case NullsOnly(_) | _: Range => left.and(other).and(right.and(other))
    case b: Both => and(b.left).and(b.right)
    case m: Members =>
      (left.and(m), right.and(m)) match {
        case (_: Both, _: Both) => Both(this, m)
        // Whichever could be made one with it is a filter less.
        case (_: Both, simpler) => left.and(simpler)
        case (simpler, _) => simpler.and(right)
      }
  }
}
