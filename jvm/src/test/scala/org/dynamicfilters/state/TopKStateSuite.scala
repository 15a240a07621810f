package org.dynamicfilters.state

import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{KeyDomain, ValueFilter, Values}
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class TopKStateSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import TopKState.Outcome

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 400, sizeRange = 20)

  private val int = KeyDomain.forType(IntegerType).toOption.get
  private def spec(limit: Int, ascending: Boolean = true, nullsFirst: Boolean = false, tiesFree: Boolean = true) =
    TopKSpec(int, limit, ascending, nullsFirst, tiesFree)
  private def keys(values: Any*): Array[AnyRef] = values.map(int.fromInternal).toArray

  private val flags = Gen.oneOf(true, false)

  /** Values of a type, of which few are distinct in some runs. */
  private def columns(t: Values): Gen[Gen[Any]] =
    Gen.oneOf(
      Gen.const(t.nullable),
      Gen.const(t.notNull),
      Gen.listOfN(3, t.nullable).map(few => Gen.oneOf(few)),
      Gen.listOfN(2, t.notNull).map(few => Gen.frequency(4 -> Gen.oneOf(few), 1 -> Gen.const(null)))
    )

  Values.all.foreach { t =>
    test(s"whatever fails, repeats or comes late, the best rows by $t are there") {
      val runs = for {
        column <- columns(t)
        sizes <- Gen.choose(1, 5).flatMap(Gen.listOfN(_, Gen.choose(0, 60)))
        parts <- sizes.foldRight(Gen.const(List.empty[List[Any]])) { (n, tail) =>
          for (head <- Gen.listOfN(n, column); rest <- tail) yield head :: rest
        }
        limit <- Gen.frequency(4 -> Gen.choose(1, 8), 1 -> Gen.choose(9, 100))
        ascending <- flags
        nullsFirst <- flags
        tiesFree <- flags
        distinct <- if (tiesFree) Gen.const(false) else Gen.oneOf(true, false)
        seed <- Gen.long
      } yield (TopKSpec(t.domain, limit, ascending, nullsFirst, tiesFree, distinct), parts, seed)
      forAll(runs) { case (s, parts, seed) =>
        val random = new java.util.Random(seed)
        val rows = parts.map(_.map(v => SimulatedRow(t.domain.fromInternal(v), random.nextInt(4))).toIndexedSeq)
        new TopKSimulation(s, rows.toIndexedSeq, seed, IndexedSeq(new TopKState(s))).run()
      }
    }
  }

  test("there is no bound before as many rows as the limit are known") {
    val t = new TopKState(spec(3))
    assert(t.put(0, 1, keys(4, 5)) == Outcome.NotTighter && t.bound.isNone)
    assert(t.bound.filterFor(0, t.spec) == ValueFilter.All)
    assert(t.put(1, 2, keys(9)) == Outcome.Tightened)
    assert(t.bound == TopKBound(1, int.fromInternal(9), 1))
  }

  test("what an attempt shares replaces what it shared before") {
    val t = new TopKState(spec(3))
    t.put(0, 1, keys(4, 5))
    assert(t.put(0, 1, keys(4, 5)) == Outcome.NotTighter && t.bound.isNone)
    assert(t.put(0, 1, keys(3, 4, 5)) == Outcome.Tightened && t.bound.key == int.fromInternal(5))
  }

  test("of different keys one that several partitions hold counts once") {
    val t = new TopKState(TopKSpec(int, 3, ascending = true, nullsFirst = false, tiesFree = false, distinct = true))
    t.put(0, 1, keys(1, 2))
    assert(t.put(1, 2, keys(1, 2)) == Outcome.NotTighter && t.bound.isNone)
    assert(t.put(2, 3, keys(2, 7)) == Outcome.Tightened && t.bound.key == int.fromInternal(7))
    assert(t.put(3, 4, keys(1, 2, 5)) == Outcome.Tightened && t.bound.key == int.fromInternal(5))
  }

  test("a retried partition does not count twice") {
    val t = new TopKState(spec(4))
    t.put(0, 1, keys(1, 2))
    assert(t.put(0, 2, keys(1, 2)) == Outcome.NotTighter && t.bound.isNone)
    assert(t.put(1, 3, keys(7, 8)) == Outcome.Tightened)
    assert(t.bound.key == int.fromInternal(8))
  }

  test("an attempt that a newer one replaced is not heard any more") {
    val t = new TopKState(spec(2))
    t.put(0, 9, keys(5))
    assert(t.put(0, 8, keys(1, 1)) == Outcome.Superseded && t.bound.isNone)
  }

  test("a bound stays when the rows behind it are replaced") {
    val t = new TopKState(spec(2))
    t.put(0, 1, keys(1, 2))
    val before = t.bound
    assert(t.put(0, 2, keys(1)) == Outcome.NotTighter && t.bound == before)
    assert(t.put(0, 2, keys(1, 50)) == Outcome.NotTighter && t.bound == before)
  }

  test("only the best rows of all partitions are held") {
    val t = new TopKState(spec(3))
    (0 until 100).foreach(p => t.put(p, p.toLong, keys(100 - p, 200 - p, 300 - p)))
    assert(t.keysHeld == 3 && t.bound.key == int.fromInternal(3))
  }

  test("of equal keys those of earlier partitions are better") {
    val t = new TopKState(spec(2))
    t.put(3, 1, keys(5, 5))
    assert(t.bound.filterFor(3, t.spec).passes(int.fromInternal(5)))
    assert(t.bound.filterFor(2, t.spec).passes(int.fromInternal(5)))
    assert(!t.bound.filterFor(4, t.spec).passes(int.fromInternal(5)))
    assert(t.put(1, 2, keys(5)) == Outcome.NotTighter)
    assert(t.put(1, 2, keys(5, 5)) == Outcome.Tightened)
    assert(t.bound.partition == 1)
  }

  test("with a second sort key equal first keys are needed everywhere") {
    val t = new TopKState(spec(1, tiesFree = false))
    t.put(0, 1, keys(5))
    assert(t.bound.filterFor(7, t.spec).passes(int.fromInternal(5)))
    val task = TaskTopK(t, 0, 1).asInstanceOf[LongTaskTopK]
    assert(task.accept(5) && task.accept(5))
    assert(task.filter().passes(int.fromInternal(5)) && !task.filter().passes(int.fromInternal(6)))
  }

  test("a task that has handed on enough rows of one key needs no more of it") {
    val t = new TopKState(spec(2))
    val task = TaskTopK(t, 0, 1).asInstanceOf[LongTaskTopK]
    assert(task.accept(5) && task.accept(5))
    assert(!task.filter().passes(int.fromInternal(5)) && task.filter().passes(int.fromInternal(4)))
    assert(!task.accept(5) && task.dropped == 1)
    // Another attempt has handed on nothing yet.
    assert(TaskTopK(t, 0, 2).filter().passes(int.fromInternal(5)))
  }

  test("a thread that does not count gets the bound of all tasks, and changes nothing") {
    val t = new TopKState(spec(2))
    val task = TaskTopK(t, 0, 1).asInstanceOf[LongTaskTopK]
    def elsewhere() = inAnotherThread(task.filter())
    def isAll = elsewhere() == ValueFilter.All
    assert(isAll && task.accept(5) && task.accept(5) && isAll)
    // Nothing was counted there: the attempt's own rows are still to be sorted.
    assert(task.accept(5) && !task.filter().passes(int.fromInternal(5)))
    assert(!elsewhere().passes(int.fromInternal(6)) && elsewhere().passes(int.fromInternal(5)))
  }

  private def inAnotherThread[A](work: => A): A = {
    val asked = new java.util.concurrent.FutureTask(() => work)
    new Thread(asked).start()
    asked.get(10, java.util.concurrent.TimeUnit.SECONDS)
  }

  test("where all attempts hand on the same rows, a thread that does not count learns nothing") {
    val t = new TopKState(spec(1))
    def started() = {
      val task = TaskTopK(t, 0, 1).asInstanceOf[LongTaskTopK]
      task.pin(TopKBound(1, int.fromInternal(7), 0))
      task
    }
    val task = started()
    assert(!task.filter().passes(int.fromInternal(8)), "its own thread, before the first row")
    assert(inAnotherThread(task.filter()) == ValueFilter.All)
    assert(task.accept(5) && !task.filter().passes(int.fromInternal(5)))
    assert(inAnotherThread(task.filter()) == ValueFilter.All)
    // What it asks for changes nothing either: the row is sorted in when the buffer is full.
    val other = started()
    assert(other.accept(5))
    inAnotherThread(other.filter())
    assert((0 until 300).forall(_ => other.accept(5)))
  }

  test("nulls that come first are dropped by the bound of others") {
    val t = new TopKState(spec(1))
    t.put(1, 1, keys(3))
    val task = TaskTopK(t, 2, 2).asInstanceOf[LongTaskTopK]
    assert(!task.acceptNull() && task.dropped == 1)
  }

  test("enough nulls leave no need for values where nulls come first") {
    val t = new TopKState(spec(2, nullsFirst = true))
    val task = TaskTopK(t, 0, 1)
    assert(task.acceptNull() && task.acceptNull())
    assert(task.filter() == ValueFilter.Nothing)
    assert(TaskTopK(t, 0, 2).filter() == ValueFilter.NullsOnly(int))
    assert(TaskTopK(t, 1, 3).filter() == ValueFilter.Nothing)
  }

  test("nulls are dropped once enough values are known where nulls come last") {
    val t = new TopKState(spec(1))
    val task = TaskTopK(t, 0, 1).asInstanceOf[LongTaskTopK]
    assert(task.acceptNull() && task.accept(Int.MaxValue.toLong))
    task.flush()
    assert(!task.acceptNull())
  }

  test("the extremes of a long are bounds like any other") {
    val long = KeyDomain.forType(LongType).toOption.get
    Seq(true -> Long.MinValue, false -> Long.MaxValue).foreach { case (ascending, best) =>
      val t = new TopKState(TopKSpec(long, 1, ascending, nullsFirst = false, tiesFree = true))
      val task = TaskTopK(t, 0, 1).asInstanceOf[LongTaskTopK]
      assert(task.accept(best))
      assert(task.filter() == ValueFilter.Nothing && !task.accept(best) && !task.accept(0L))
    }
  }

  test("tasks of many threads agree on the best rows") {
    val s = spec(50)
    val t = new TopKState(s)
    val pool = java.util.concurrent.Executors.newFixedThreadPool(4)
    try {
      val done = (0 until 16).map { p =>
        pool.submit(new java.util.concurrent.Callable[Seq[Int]] {
          override def call(): Seq[Int] = {
            val task = TaskTopK(t, p, p.toLong).asInstanceOf[LongTaskTopK]
            val random = new java.util.Random(p.toLong)
            val rows = IndexedSeq.fill(5000)(random.nextInt(20000))
            val kept = rows.filter(k => task.accept(k.toLong))
            task.flush()
            task.publish() // flush shares only now and then
            kept
          }
        })
      }
      val kept = done.flatMap(_.get(30, java.util.concurrent.TimeUnit.SECONDS))
      val all = (0 until 16).flatMap { p =>
        val random = new java.util.Random(p.toLong)
        IndexedSeq.fill(5000)(random.nextInt(20000))
      }
      assert(kept.sorted.take(50) == all.sorted.take(50))
      assert(t.bound.key == int.fromInternal(all.sorted.apply(49)))
    } finally pool.shutdownNow()
  }

  test("partitions that know the same keys share one list of them, full or not") {
    def state(limit: Int) = new TopKState(
      TopKSpec(int, limit, ascending = true, nullsFirst = true, tiesFree = false, distinct = true),
      Some(_ => ())
    )
    val keys = null +: (1 to 99).map(i => int.fromInternal(i))
    for (limit <- Seq(50, 1000)) {
      val t = state(limit)
      (0 until 2000).foreach(p => t.put(p, 1, keys.take(limit).toArray))
      assert(t.keysHeld == math.min(limit, 100))
      assert(t.takeUnsent().map(_.keys.toSeq) == Seq(keys.take(limit)))
      assert(t.put(5, 9, keys.take(limit).toArray) == Outcome.NotTighter)
      assert(t.takeUnsent().isEmpty, "nothing is new")
      assert(t.bound.key == (if (limit == 50) int.fromInternal(49) else null))
    }
  }

  test("long keys are not kept by the thousand until they are sorted") {
    val text = KeyDomain.forType(StringType).toOption.get
    val t = new TopKState(TopKSpec(text, 1, ascending = false, nullsFirst = false, tiesFree = true))
    val task = TaskTopK(t, 0, 1).asInstanceOf[ObjectTaskTopK]
    val long = "x" * (300 * 1024)
    (10 until 20).foreach(i => task.accept(UTF8String.fromString(s"$i$long")))
    // After a few of them it knew the best one, without being asked.
    assert(!task.accept(UTF8String.fromString("1")) && task.accept(UTF8String.fromString("3")))
  }
}
