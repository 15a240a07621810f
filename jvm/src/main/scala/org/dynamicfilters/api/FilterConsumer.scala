package org.dynamicfilters.api

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.SparkPlan

/** Mixed into a physical scan that reads less when it knows which rows cannot matter.
  *
  * The planner calls `withFilter` for each filter that reaches the scan, and puts what it returns in its place. While it
  * runs, the scan asks `filter.current` which values still matter, as often as it likes: on the driver before it lists its
  * files or splits, and in its tasks before each file, block or batch. To drop fewer rows than the filter would allow is
  * always right.
  *
  * {{{
  * case class MyScan(output: Seq[Attribute], filters: Seq[DynamicFilter] = Nil) extends LeafExecNode with FilterConsumer {
  *   override def withFilter(filter: DynamicFilter): SparkPlan = copy(filters = filters :+ filter)
  *   ...
  * }
  * }}}
  *
  * The scan must give the same rows again when a task is retried, but for those that its filters exclude.
  */
trait FilterConsumer { this: SparkPlan =>

  /** Whether the scan can use a filter on a column of its output. */
  def takesFilterOn(column: Attribute): Boolean = true

  /** The same scan, which asks this filter too. What it returns is again a [[FilterConsumer]] with equal output, and keeps the
    * filter in its arguments: scans under different filters must not be equal.
    */
  def withFilter(filter: DynamicFilter): SparkPlan
}

/** A filter on one column of a scan. It may be asked at any time; what it answers only ever gets tighter.
  *
  * Equal filters leave the same rows, so it may be compared as part of a plan.
  */
trait DynamicFilter extends Serializable {

  /** As in plans and reports: `DynamicFilter#<id>`. */
  def id: Long

  /** The scan's column. */
  def column: Attribute

  /** Which values can matter, as is known now: in the running task, or on the driver. Everything passes where nothing is
    * known yet.
    */
  def current: ColumnFilter
}

/** Which values of a column can matter to the query. Immutable.
  *
  * Values are as in Spark's `InternalRow`: `UTF8String` for strings, days for dates, microseconds for timestamps, `Decimal`.
  * null is SQL NULL. Values of another type than the column's throw IllegalArgumentException.
  */
trait ColumnFilter extends Serializable {

  /** Nothing is known yet: there is no use in asking for single values. */
  def everythingPasses: Boolean

  /** No row can matter at all. */
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

  /** The values that can matter, if they are known one by one. None if NULL may matter, or a zero or NaN of a floating-point type:
    * these are several values to whoever looks them up by equality.
    */
  def values: Option[Seq[Any]]

  /** As in a SQL text, for plans and logs: `50 <= k <= 1000`. */
  def describe: String
}
