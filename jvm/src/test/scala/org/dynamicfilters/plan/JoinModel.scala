package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.plans._

/** Joins of tiny relations, row by row, as SQL defines them: what [[JoinSemantics]] is tested against.
  *
  * A relation is the keys of its rows, at most three; None is NULL. A row's identity is its position, so all output rows of a
  * join differ, and its result is a set of bits. Some rows of a relation are a set of bits too.
  */
object JoinModel {
  type Relation = IndexedSeq[Option[Int]]

  val keys: Seq[Option[Int]] = Seq(None, Some(0), Some(1))
  private val maxRows = 3

  /** Every relation, in any order of its rows. */
  val relations: Seq[Relation] =
    (0 to maxRows).flatMap(n =>
      (0 until n).foldLeft(Seq(Vector.empty[Option[Int]]))((rs, _) => rs.flatMap(r => keys.map(r :+ _)))
    )

  /** @param nullAware `NOT IN`: only as a left anti join without a condition
    * @param nullsMatch keys are compared by `<=>`
    * @param hasCondition beside the keys: that the rows' positions are both even or both odd
    */
  final case class Kind(joinType: JoinType, nullAware: Boolean, nullsMatch: Boolean, hasCondition: Boolean) {
    def equal(l: Option[Int], r: Option[Int]): Boolean = l == r && (nullsMatch || l.isDefined)

    /** Whether the join puts out the columns of a side. */
    def putsOut(left: Boolean): Boolean = left || (joinType match {
      case LeftSemi | LeftAnti | ExistenceJoin(_) => false
      case _ => true
    })
  }

  /** In an output row, the place of a side that has no row there. */
  val Absent: Int = maxRows

  private val outputRows = (Absent + 1) * (Absent + 1) * 2

  /** @param flag `exists` of an existence join; for a single join the error that there is more than one match
    */
  private def output(l: Int, r: Int, flag: Boolean = false): Long =
    1L << (((l * (Absent + 1) + r) << 1) | (if (flag) 1 else 0))

  /** The output rows in which a side has one of these rows, or none if `absent`: those that pass a filter on its columns. */
  def outputWith(left: Boolean, rows: Int, absent: Boolean): Long =
    (0 until outputRows)
      .filter { i =>
        val row = if (left) (i >> 1) / (Absent + 1) else (i >> 1) % (Absent + 1)
        if (row == Absent) absent else (rows >> row & 1) == 1
      }
      .foldLeft(0L)((bits, i) => bits | 1L << i)

  def all(r: Relation): Int = (1 << r.size) - 1

  def rowsOf(r: Relation)(p: Option[Int] => Boolean): Int =
    r.indices.filter(i => p(r(i))).foldLeft(0)((bits, i) => bits | 1 << i)

  def subsets(rows: Int): Iterator[Int] = (0 to rows).iterator.filter(d => (d & ~rows) == 0)

  /** The join's result when each side has only these of its rows left. */
  def join(k: Kind, left: Relation, right: Relation)(leftRows: Int, rightRows: Int): Long = {
    val ls = left.indices.filter(l => (leftRows >> l & 1) == 1)
    val rs = right.indices.filter(r => (rightRows >> r & 1) == 1)
    def matches(l: Int, r: Int) = k.equal(left(l), right(r)) && (!k.hasCondition || (l + r) % 2 == 0)
    def ofLeft(l: Int) = rs.filter(matches(l, _))
    def pairs = ls.flatMap(l => ofLeft(l).map(output(l, _)))
    def leftAlone = ls.filter(ofLeft(_).isEmpty).map(output(_, Absent))
    def rightAlone = rs.filter(r => !ls.exists(matches(_, r))).map(output(Absent, _))
    val rows: Seq[Long] = k.joinType match {
      case LeftAnti if k.nullAware =>
        if (rs.isEmpty) ls.map(output(_, Absent))
        else if (rs.exists(right(_).isEmpty)) Nil
        else ls.filter(l => left(l).isDefined && ofLeft(l).isEmpty).map(output(_, Absent))
      case _: InnerLike => pairs
      case LeftOuter => pairs ++ leftAlone
      case RightOuter => pairs ++ rightAlone
      case FullOuter => pairs ++ leftAlone ++ rightAlone
      case LeftSemi => ls.filter(ofLeft(_).nonEmpty).map(output(_, Absent))
      case LeftAnti => leftAlone
      case LeftSingle =>
        ls.map(l =>
          ofLeft(l) match {
            case Seq() => output(l, Absent)
            case Seq(r) => output(l, r)
            case _ => output(l, Absent, flag = true)
          }
        )
      case ExistenceJoin(_) => ls.map(l => output(l, Absent, flag = ofLeft(l).nonEmpty))
      case other => throw new IllegalArgumentException(other.toString)
    }
    rows.foldLeft(0L)(_ | _)
  }
}
