package org.dynamicfilters.api

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.SparkPlan

/** Mixed into a physical scan that reads less when it knows which rows cannot matter.
  *
  * The planner calls `withFilter` for each filter that reaches the scan, and replaces the scan by the result. While it runs,
  * the scan asks `filter.current` which values still matter, as often as it likes: on the driver before it lists its files or
  * splits, and in its tasks before each file, block or batch. A scan may always return more rows than pass its filters.
  *
  * {{{
  * case class MyScan(output: Seq[Attribute], filters: Seq[DynamicFilter] = Nil) extends LeafExecNode with FilterConsumer {
  *   override def withFilter(filter: DynamicFilter): SparkPlan = copy(filters = filters :+ filter)
  *   ...
  * }
  * }}}
  *
  * A retried task must get the same rows again, except for rows that the filters exclude.
  */
trait FilterConsumer { this: SparkPlan =>

  /** Whether the scan can use a filter on a column of its output. */
  def takesFilterOn(column: Attribute): Boolean = true

  /** The same scan with this filter. The result is a [[FilterConsumer]] with equal output. It keeps the filter in its arguments,
    * because scans under different filters must not be equal.
    */
  def withFilter(filter: DynamicFilter): SparkPlan
}

/** A filter on one column of a scan. `current` may be called at any time. Each result is at least as tight as the ones before.
  *
  * Equal filters leave the same rows, so it may be compared as part of a plan.
  */
trait DynamicFilter extends Serializable {

  /** As in plans and reports: `DynamicFilter#<id>`. */
  def id: Long

  /** The scan's column. */
  def column: Attribute

  /** The values that can matter, as far as the running task or the driver knows now. As long as nothing is known, everything
    * passes.
    */
  def current: ColumnFilter
}

/** Which values of a column can matter to the query. Immutable.
  *
  * Values are as in Spark's `InternalRow`: `UTF8String` for strings, days for dates, microseconds for timestamps, `Decimal`.
  * null is SQL NULL. Values of another type than the column's throw IllegalArgumentException.
  */
trait ColumnFilter extends Serializable {

  /** Whether every value passes, because nothing is known yet. */
  def everythingPasses: Boolean

  /** Whether no row can matter. */
  def nothingPasses: Boolean

  /** Whether a row with this value can matter. */
  def mayMatch(value: Any): Boolean

  /** Whether a row can matter whose value lies between two ends, both inclusive.
    *
    * @param min null if it is not known
    * @param max null if it is not known
    * @param nulls whether there may be NULLs too
    */
  def mayMatchBetween(min: Any, max: Any, nulls: Boolean): Boolean

  /** The values that can matter, if they are known one by one. None also if NULL may matter, or a zero or NaN of a floating-point
    * type: they have several bit patterns, so a lookup by hash may miss them.
    */
  def values: Option[Seq[Any]]

  /** As in a SQL text, for plans and logs: `50 <= k <= 1000`. */
  def describe: String
}
