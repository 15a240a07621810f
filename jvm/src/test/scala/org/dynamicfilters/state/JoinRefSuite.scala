package org.dynamicfilters.state

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, BoundReference, ExprId}
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan}
import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.KeyLimits
import org.dynamicfilters.reasons.Reasons
import org.scalatest.funsuite.AnyFunSuite

/** When two joins' filters are taken for one. */
class JoinRefSuite extends AnyFunSuite {
  private val key = BoundReference(0, LongType, nullable = true)
  private def scan(name: String): SparkPlan =
    LocalTableScanExec(Seq(AttributeReference(name, LongType)(ExprId(0))), Nil, None)
  private def ref(build: String): JoinRef =
    JoinRef("k=j", scan(build), key, nullsMatch = false, limits, new NoTables)
  private val limits = KeyLimits(1000, 10, 0.01, 1 << 20)
  private def isGivenUp(r: JoinRef): Boolean = r.state.phase == JoinPhase.Disabled(Reasons.NarrowedLater)

  test("filters of equal build sides are equal, those of different ones are not") {
    assert(ref("d") == ref("d") && ref("d") != ref("e"))
    assert(ref("d").hashCode == ref("d").hashCode)
  }

  test("filters of equal build sides are different where other filters narrow these in different ways") {
    val (plain, narrowed, alike, other) = (ref("d"), ref("d"), ref("d"), ref("d"))
    plain.narrowedBy(Nil, Set.empty)
    narrowed.narrowedBy(Seq(Some(scan("x"))), Set("x"))
    alike.narrowedBy(Seq(Some(scan("x"))), Set("x"))
    other.narrowedBy(Seq(Some(scan("y"))), Set("y"))
    assert(narrowed == alike && narrowed != plain && narrowed != other)
  }

  test("what is planned anew is compared as it was planned first, unless other filters narrow it") {
    val (x, y) = (ref("d"), ref("d"))
    Seq(x, y).foreach(_.narrowedBy(Seq(Some(scan("x"))), Set("x")))
    x.narrowedBy(Seq(Some(scan("stage"))), Set("x"))
    assert(x == y)
    x.narrowedBy(Seq(Some(scan("stage")), Some(scan("y"))), Set("x", "y"))
    assert(x != y)
  }

  test("a filter that another one was found equal to is given up if other filters narrow its build side") {
    val (x, y, alone) = (ref("d"), ref("d"), ref("d"))
    Seq(x, y, alone).foreach(_.narrowedBy(Nil, Set.empty))
    assert(x == y)
    Seq(x, alone).foreach(_.narrowedBy(Seq(Some(scan("x"))), Set("x")))
    assert(isGivenUp(x) && !isGivenUp(y) && !isGivenUp(alone))
  }

  test("a filter is other than one of the same join that collects other keys") {
    val (x, same, otherKeys) = (ref("d"), ref("d"), ref("e"))
    assert(x.source == same.source && x.source != otherKeys.source)
    same.tappedAfter(Seq("filter"))
    assert(x.source != same.source)
  }

  private def known(files: => Seq[Any], again: => Boolean) = {
    val facts = new NoTables {
      override def listed: Seq[Any] = files
      override def repeats: Boolean = again
    }
    JoinRef("k=j", scan("d"), key, nullsMatch = false, limits, facts)
  }

  test("a filter whose build side may have other keys when it is run again is equal to itself only") {
    val (drawn, repeated) = (known(Nil, again = false), known(Nil, again = true))
    assert(drawn == drawn && drawn != known(Nil, again = false) && drawn != repeated && repeated != drawn)
    val failing = known(Nil, again = sys.error("cannot tell"))
    assert(failing == failing && failing != repeated)
  }

  test("filters of equal build sides are different if these know other files of their tables") {
    def of(files: => Seq[Any]) = known(files, again = true)
    val (older, newer, unknown) = (of(Seq(1)), of(Seq(2)), of(Nil))
    assert(older == of(Seq(1)) && older != newer && older != unknown && unknown == of(Nil))
    val failing = of(sys.error("cannot tell"))
    assert(failing != older && failing != unknown && failing == failing)
  }

  test("one filter in place of another is another one") {
    val (x, y) = (ref("d"), ref("d"))
    Seq(x, y).foreach(_.narrowedBy(Seq(Some(scan("x"))), Set("x")))
    assert(x == y)
    x.narrowedBy(Seq(Some(scan("y"))), Set("y"))
    assert(x != y && isGivenUp(x) && !isGivenUp(y))
  }

  test("which of two equal scans is filtered makes a difference") {
    val (first, second) = (ref("d"), ref("d"))
    first.narrowedBy(Seq(Some(scan("x")), None), Set("x"))
    second.narrowedBy(Seq(None, Some(scan("x"))), Set("x"))
    assert(first != second)
  }

  test("a filter whose keys come from another place is equal to itself only") {
    val (moved, other) = (ref("d"), ref("d"))
    moved.tappedAfter(moved.facts.passed)
    assert(moved == other)
    val alone = ref("d")
    alone.tappedAfter(Seq("filter"))
    assert(alone != other && other != alone && alone == alone)
    assert(alone.state.phase == JoinPhase.Registered)
  }

  test("a filter that another one was found equal to is given up if its keys come from another place") {
    val (moved, other) = (ref("d"), ref("d"))
    assert(moved == other)
    moved.tappedAfter(Seq("filter"))
    assert(moved.state.phase == JoinPhase.Disabled(Reasons.MovedLater))
    assert(other.state.phase == JoinPhase.Registered)
    // Nor may it come back with the keys of a third one.
    val third = ref("d")
    moved.state.follow(third.state)
    third.state.started(0)
    assert(moved.state.phase == JoinPhase.Disabled(Reasons.MovedLater))
  }

  test("a filter that two joins of a plan have is given up if its keys come from another place, or are narrowed") {
    val (moved, late, narrowed) = (ref("d"), ref("d"), ref("d"))
    moved.usedByOthers()
    moved.tappedAfter(Seq("filter"))
    late.tappedAfter(Seq("filter"))
    late.usedByOthers()
    Seq(moved, late).foreach(r => assert(r.state.phase == JoinPhase.Disabled(Reasons.MovedLater)))
    narrowed.narrowedBy(Nil, Set.empty)
    narrowed.usedByOthers()
    assert(narrowed.state.phase == JoinPhase.Registered)
    narrowed.narrowedBy(Seq(Some(scan("x"))), Set("x"))
    assert(isGivenUp(narrowed))
  }
}
