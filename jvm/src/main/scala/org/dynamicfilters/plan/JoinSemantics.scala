package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.execution.joins.{BaseJoinExec, BroadcastHashJoinExec}

/** What a join's type lets filters do at its left and its right side. The only place that knows.
  *
  * A filter is advice: a scan may drop any of the rows that it excludes, each by itself, at any time, or none. So a rule holds
  * only if the join's result stays right whatever subset of them is gone. Rules hold for any filter, also one that lets NULL
  * pass, for any condition beside the keys, and for keys that are compared by `=` and by `<=>`.
  */
final case class JoinSemantics(left: JoinSemantics.Side, right: JoinSemantics.Side) {
  def apply(isLeft: Boolean): JoinSemantics.Side = if (isLeft) left else right
}

object JoinSemantics {

  /** Rules for one side.
    *
    * @param mayLose
    *   its rows that equal no key of the other side do not matter: the result is the same without them
    * @param carries
    *   a filter on one of its columns, whose excluded rows nobody above the join needs, may go down into it. Also says that
    *   what the join puts out in its columns are values of its rows. False where its columns are not put out
    * @param carriesAcross
    *   if such a filter is on a key, it may go down into the other side too, by the equal key there; with or without going
    *   into this one, for rows that it excludes may be there in any number above the join
    */
  final case class Side(mayLose: Boolean, carries: Boolean, carriesAcross: Boolean) {
    require(carries || !carriesAcross, "a filter that stops above the join cannot go across it")
  }

  private val nothing = Side(mayLose = false, carries = false, carriesAcross = false)

  /** Only its rows with a match are put out. */
  private val matched = Side(mayLose = true, carries = true, carriesAcross = true)

  /** All of its rows decide by themselves what is put out of them, with and without a match. */
  private val preserved = Side(mayLose = false, carries = true, carriesAcross = true)

  /** Its rows are looked up: of those that nobody looks up nothing is seen. Its columns are not put out, or NULL may stand in
    * for a row that was dropped.
    */
  private val lookedUp = Side(mayLose = true, carries = false, carriesAcross = false)

  private val allNeeded = JoinSemantics(nothing, nothing)

  /** @param nullAware
    *   a single-key `NOT IN`: a NULL on the right decides over every row of the left, and so does whether there is a row at
    *   all. So the right side is needed as it is. Only a left anti join can be that; any other is not known
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
        // A second match is an error: one of a row that nobody needs may go unnoticed, as below Spark's own filters.
        case LeftOuter | LeftSingle | LeftAnti | ExistenceJoin(_) => JoinSemantics(preserved, lookedUp)
        case RightOuter => JoinSemantics(lookedUp, preserved)
        case FullOuter => allNeeded
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

  /** Whether the join is planned as a `NOT IN` by its key. Where Spark plans it with a condition instead (several columns), it
    * has no key for it.
    */
  def isNullAware(join: BaseJoinExec): Boolean = join match {
    case b: BroadcastHashJoinExec => b.isNullAwareAntiJoin
    case _ => false
  }
}
