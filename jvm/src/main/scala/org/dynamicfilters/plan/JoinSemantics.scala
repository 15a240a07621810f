package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.execution.joins.{BaseJoinExec, BroadcastHashJoinExec}

/** The rules for filters at the left and right side of a join, by join type (contract 10). Used for producers
  * ([[JoinSides]]) and for push-down ([[PushDown]]).
  *
  * A scan may drop any subset of the rows that a filter excludes. A rule holds only if the join's result is right for each
  * such subset, for any filter (also one that passes NULL), any join condition, and keys compared by `=` or `<=>`.
  */
final case class JoinSemantics(left: JoinSemantics.Side, right: JoinSemantics.Side) {
  def apply(isLeft: Boolean): JoinSemantics.Side = if (isLeft) left else right
}

object JoinSemantics {

  /** Rules for one side.
    *
    * @param mayLose whether the side can be filtered by the other side's keys: its rows without a match do not change
    *   the result
    * @param carries whether a filter from above the join, on a column of the side, can go down into the side. Implies
    *   that the join outputs the side's own values in its columns, without added NULLs
    * @param carriesAcross whether such a filter on a key can also go down into the other side, on the equal key there,
    *   even if it does not go into this side: excluded rows may appear in any number above the join
    */
  final case class Side(mayLose: Boolean, carries: Boolean, carriesAcross: Boolean) {
    require(carries || !carriesAcross, "a filter that stops above the join cannot go across it")
  }

  private val nothing = Side(mayLose = false, carries = false, carriesAcross = false)

  /** The join outputs only rows of this side that have a match. */
  private val matched = Side(mayLose = true, carries = true, carriesAcross = true)

  /** The join outputs, or tests, each row of this side on its own, with or without a match. */
  private val preserved = Side(mayLose = false, carries = true, carriesAcross = true)

  /** The other side looks rows of this side up. The join outputs no columns of this side, or NULL if there is no match. */
  private val lookedUp = Side(mayLose = true, carries = false, carriesAcross = false)

  private val allNeeded = JoinSemantics(nothing, nothing)

  /** @param nullAware whether the join is a single-key `NOT IN`, always a left anti join in Spark. A NULL on the right,
    *   or an empty right side, decides over every row of the left, so the right side must stay complete
    */
  def of(joinType: JoinType, nullAware: Boolean): JoinSemantics =
    if (nullAware)
      joinType match {
        case LeftAnti => JoinSemantics(Side(mayLose = false, carries = true, carriesAcross = false), nothing)
        case _ => allNeeded
      }
    else
      joinType match {
        case _: InnerLike => JoinSemantics(matched, matched)
        case LeftSemi => JoinSemantics(matched, lookedUp)
        // A second match is an error in LeftSingle. For excluded rows it may go unnoticed, as below Spark's own filters.
        case LeftOuter | LeftSingle | LeftAnti | ExistenceJoin(_) => JoinSemantics(preserved, lookedUp)
        case RightOuter => JoinSemantics(lookedUp, preserved)
        // A full outer join, or an unknown one.
        case _ => allNeeded
      }

  def of(join: BaseJoinExec): JoinSemantics = of(join.joinType, isNullAware(join))

  /** The join with its article, for reasons: "a left outer join". Spark throws when asked for the SQL of an existence join. */
  def withArticle(joinType: JoinType): String = joinType match {
    case ExistenceJoin(_) => "an existence join"
    case other =>
      val words = other.sql.toLowerCase(java.util.Locale.ROOT)
      s"${if ("aeiou".contains(words.head)) "an" else "a"} $words join"
  }

  /** Whether the join is a single-key `NOT IN`. Spark plans one of several columns with a condition, without keys. */
  def isNullAware(join: BaseJoinExec): Boolean = join match {
    case b: BroadcastHashJoinExec => b.isNullAwareAntiJoin
    case _ => false
  }
}
