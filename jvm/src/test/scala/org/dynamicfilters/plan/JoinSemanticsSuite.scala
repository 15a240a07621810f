package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.types.BooleanType
import org.dynamicfilters.plan.JoinModel._
import org.scalatest.funsuite.AnyFunSuite

/** The table of join rules against the row-level model: what it allows never changes a result, whatever rows a filter that is
  * advice drops; what it forbids would.
  */
class JoinSemanticsSuite extends AnyFunSuite {
  private val existence = ExistenceJoin(AttributeReference("exists", BooleanType)())
  private val types: Seq[(JoinType, Boolean)] =
    Seq(Inner, Cross, LeftOuter, RightOuter, FullOuter, LeftSemi, LeftAnti, LeftSingle, existence).map(_ -> false) :+
      (LeftAnti -> true)

  private def kinds(joinType: JoinType, nullAware: Boolean): Seq[Kind] =
    if (nullAware) Seq(Kind(joinType, nullAware, nullsMatch = false, hasCondition = false))
    else for (n <- Seq(false, true); c <- Seq(false, true)) yield Kind(joinType, nullAware, n, c)

  test("reasons name a join with its article") {
    assert(Seq(existence, LeftOuter).map(JoinSemantics.withArticle) == Seq("an existence join", "a left outer join"))
  }

  /** A join whose result rows were dropped below.
    *
    * @param result by the rows that are left on the left and on the right
    */
  private final class Case(val kind: Kind, val left: Relation, val right: Relation) {
    private val results =
      Array.tabulate(all(left) + 1, all(right) + 1)((l, r) => join(kind, left, right)(l, r))

    def side(isLeft: Boolean): Relation = if (isLeft) left else right

    /** Whether these rows of both sides can be gone without a change to the output rows that are `relevant`. */
    def unchanged(side: Boolean, dropped: Int, droppedOther: Int, relevant: Long): Boolean = {
      val (l, r) = if (side) (dropped, droppedOther) else (droppedOther, dropped)
      val (before, after) = (results(all(left))(all(right)), results(all(left) & ~l)(all(right) & ~r))
      ((before ^ after) & relevant) == 0
    }
    override def toString: String = s"$kind, left $left, right $right"
  }

  /** Kept for all tests of a join type: most of the time is that of their results. */
  private def casesOf(joinType: JoinType, nullAware: Boolean): LazyList[Case] = {
    val all = relations.to(LazyList)
    for (k <- kinds(joinType, nullAware).to(LazyList); l <- all; r <- all) yield new Case(k, l, r)
  }

  private def mayLose(c: Case, left: Boolean): Boolean = {
    val other = c.side(!left)
    val unmatched = rowsOf(c.side(left))(x => !other.exists(y => if (left) c.kind.equal(x, y) else c.kind.equal(y, x)))
    subsets(unmatched).forall(c.unchanged(left, _, 0, relevant = -1L))
  }

  /** A filter on any of the side's columns: it may exclude any of its rows, and let NULL pass or not. */
  private def carries(c: Case, left: Boolean): Boolean = {
    val rows = all(c.side(left))
    Seq(true, false).forall { nullPasses =>
      subsets(rows).forall { excluded =>
        val relevant = outputWith(left, rows & ~excluded, nullPasses)
        subsets(excluded).forall(c.unchanged(left, _, 0, relevant))
      }
    }
  }

  /** A filter on the side's key, for any set of keys, in the other side.
    *
    * @param both whether it is in this side too
    */
  private def carriesAcross(c: Case, left: Boolean, both: Boolean): Boolean =
    keys.toSet.subsets().forall { pass =>
      val (own, other) = (c.side(left), c.side(!left))
      val relevant = outputWith(left, rowsOf(own)(pass), pass(None))
      subsets(rowsOf(other)(!pass(_))).forall { droppedOther =>
        subsets(if (both) rowsOf(own)(!pass(_)) else 0).forall(c.unchanged(left, _, droppedOther, relevant))
      }
    }

  for ((joinType, nullAware) <- types; cases = casesOf(joinType, nullAware); left <- Seq(true, false)) {
    val name =
      s"${if (nullAware) "null-aware " else ""}${JoinSemantics.withArticle(joinType)}, ${if (left) "left" else "right"}"
    val rules = JoinSemantics.of(joinType, nullAware)(left)

    def check(role: String, allowed: Boolean)(harmless: Case => Boolean): Unit = {
      val changed = cases.find(!harmless(_))
      if (allowed) assert(changed.isEmpty, s"$role is allowed and changes the result")
      else {
        assert(changed.isDefined, s"$role is forbidden and never changes a result")
        info(s"without $role: ${changed.get}")
      }
    }

    test(s"$name: rows without a match")(check("losing them", rules.mayLose)(mayLose(_, left)))

    if (cases.head.kind.putsOut(left)) {
      test(s"$name: filters on its columns")(check("carrying them", rules.carries)(carries(_, left)))
      test(s"$name: filters on its key in the other side") {
        check("carrying them across", rules.carriesAcross)(carriesAcross(_, left, both = rules.carriesAcross))
      }
    } else
      test(s"$name: its columns are not put out")(assert(!rules.carries && !rules.carriesAcross))
  }

  test("what is not known is allowed nothing") {
    val nothing = JoinSemantics.Side(mayLose = false, carries = false, carriesAcross = false)
    val unknown = Seq(NaturalJoin(Inner), UsingJoin(Inner, Seq("k"))).map(_ -> false) ++
      types.filterNot(_._1 == LeftAnti).map { case (t, _) => t -> true }
    unknown.foreach { case (t, nullAware) => assert(JoinSemantics.of(t, nullAware) == JoinSemantics(nothing, nothing)) }
  }
}
