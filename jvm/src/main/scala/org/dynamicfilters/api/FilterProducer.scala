package org.dynamicfilters.api

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.SparkPlan

/** Mixed into a physical operator that does not need all rows of its children.
  *
  * It says once, when the plan is made, which rows it needs; the filter is made of the rows that pass by while the query runs,
  * and goes down to the scans that the column comes from. The operator itself keeps working on whatever rows arrive: filters
  * come late, or not at all.
  *
  * {{{
  * case class Newest(time: Attribute, n: Int, child: SparkPlan) extends UnaryExecNode with FilterProducer {
  *   override def neededRows: Seq[NeededRows] = Seq(BestRows(time, n, ascending = false))
  *   ...
  * }
  * }}}
  */
trait FilterProducer { this: SparkPlan =>

  /** What it needs of its children's rows: at most one of each child. The same on every call. */
  def neededRows: Seq[NeededRows]
}

/** Which rows of a child an operator needs. */
sealed trait NeededRows {

  /** Of a child's output; a plain column, else there is no filter. */
  def column: Attribute
}

/** The operator needs those rows only that are among the `limit` best of all rows of the child by this column.
  *
  * Where the last of them has equals, the operator must not care which of these it gets, unless `ties` is true.
  *
  * @param limit
  *   at least 1
  * @param ascending
  *   whether the smallest values are the best ones
  * @param nullsFirst
  *   whether NULL is better than every value, else it is worse
  * @param ties
  *   whether all rows that are equal to the last one are needed too
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

/** The operator needs those rows only whose value equals that of `key` in some row of another child.
  *
  * That child must be an exchange, or have one below sorts, filters and projections: it is where the keys are collected.
  *
  * @param key
  *   over the other child's output; deterministic
  * @param nullsMatch
  *   whether NULL equals NULL, as by `<=>`
  */
final case class MatchingRows(column: Attribute, key: Expression, nullsMatch: Boolean = false) extends NeededRows
