package org.dynamicfilters.api

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.SparkPlan

/** Mixed into a physical operator that does not need all rows of its children.
  *
  * The operator says at planning time which rows it needs. The filter is made at run time from the rows that reach the operator,
  * and is pushed to the scans of the column. Filters may come late or never, so the operator must handle all rows.
  *
  * {{{
  * case class Newest(time: Attribute, n: Int, child: SparkPlan) extends UnaryExecNode with FilterProducer {
  *   override def neededRows: Seq[NeededRows] = Seq(BestRows(time, n, ascending = false))
  *   ...
  * }
  * }}}
  */
trait FilterProducer { this: SparkPlan =>

  /** The needed rows, at most one entry for each child. Must be the same on every call. */
  def neededRows: Seq[NeededRows]
}

/** Which rows of a child an operator needs. */
sealed trait NeededRows {

  /** A column of a child's output. There is no filter on a computed column. */
  def column: Attribute
}

/** The operator needs only the `limit` best rows of the child by this column.
  *
  * If more rows are equal to the last of them, the operator may get any of these, unless `ties` is true.
  *
  * @param limit at least 1
  * @param ascending whether the smallest values are the best ones
  * @param nullsFirst whether NULL is better than every value, else it is worse
  * @param ties whether all rows that are equal to the last one are needed too
  */
final case class BestRows(
    column: Attribute,
    limit: Int,
    ascending: Boolean = true,
    nullsFirst: Boolean = false,
    ties: Boolean = false
) extends NeededRows {
  require(limit >= 1, s"BestRows takes a limit of at least 1, not $limit")
}

/** The operator needs only rows whose value equals `key` in some row of another child.
  *
  * The other child must be an exchange, or have one below sorts, filters and projections. The keys are collected there.
  *
  * @param key over the other child's output; deterministic
  * @param nullsMatch whether NULL equals NULL, as by `<=>`
  */
final case class MatchingRows(column: Attribute, key: Expression, nullsMatch: Boolean = false) extends NeededRows
