package org.dynamicfilters.exchange

import java.util.concurrent.CountDownLatch

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.dynamicfilters.filter.{KeyCollector, KeyDomain, KeyLimits, ValueFilter, Values}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state._
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** What executors and the driver make of each other's messages. */
class ClusterExchangeSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 60, sizeRange = 20)

  private val int = KeyDomain.forType(IntegerType).toOption.get
  private val top3 = TopKSpec(int, 3, ascending = true, nullsFirst = false, tiesFree = true)
  private val limits = KeyLimits(maxRows = 100000, inMaxValues = 100000, bloomFpp = 0.01, maxFilterBytes = 8 << 20)
  private val name = FilterName(7, 1)

  private def source(spec: TopKSpec, joins: JoinState*): FilterSource = new FilterSource {
    override def topK(id: Long): Option[TopKSpec] = Option.when(id == name.filterId)(spec)
    override def join(id: Long): Option[JoinState] = joins.find(_.filterId == id)
  }
  private def topK(node: SimulatedCluster#Node, spec: TopKSpec = top3, execution: Long = 1): TopKState =
    node.executions.open(execution).flatMap(_.topK(name, spec)).get
  private def late(node: SimulatedCluster#Node): Option[ValueFilter] =
    node.executions.open(1).flatMap(_.lateFilter(9))
  private def keys(values: Any*): Array[AnyRef] = values.map(int.fromInternal).toArray
  private def bound(t: TopKState): Any = t.bound.key

  test("a bound that one executor finds reaches the others") {
    val c = new SimulatedCluster(3, source(top3))
    val shared = c.nodes.map(topK(_))
    shared.head.put(0, 1, keys(1, 2, 3))
    shared(1).put(1, 2, keys(100, 200, 300))
    c.settle()
    assert(shared.forall(bound(_) == int.fromInternal(3)))
    assert(
      shared(2).bound.filterFor(5, top3) == ValueFilter.range(
        int,
        None,
        Some(org.dynamicfilters.filter.End(int.fromInternal(3), inclusive = false)),
        nulls = false
      )
    )
  }

  test("rows of several executors make a bound that none of them could") {
    val c = new SimulatedCluster(3, source(top3))
    val shared = c.nodes.map(topK(_))
    shared.zipWithIndex.foreach { case (t, i) => t.put(i, i.toLong, keys(10 + i)) }
    assert(shared.forall(_.bound.isNone))
    c.settle()
    assert(shared.forall(bound(_) == int.fromInternal(12)))
  }

  test("an attempt that is retried on another executor does not count twice") {
    val c = new SimulatedCluster(2, source(top3))
    val shared = c.nodes.map(topK(_))
    shared.head.put(0, 1, keys(1, 2))
    c.settle()
    shared(1).put(0, 2, keys(1, 2))
    c.settle()
    assert(shared.forall(_.bound.isNone))
    shared(1).put(1, 3, keys(50))
    c.settle()
    assert(shared.forall(bound(_) == int.fromInternal(50)))
  }

  test("an executor that joins late gets the present bound when it asks") {
    val c = new SimulatedCluster(2, source(top3))
    topK(c.nodes.head).put(0, 1, keys(1, 2, 3))
    c.settle()
    val late = topK(c.nodes(1))
    c.settle()
    assert(bound(late) == int.fromInternal(3))
  }

  test("what others cannot need is not sent") {
    val c = new SimulatedCluster(2, source(top3))
    val shared = c.nodes.map(topK(_))
    shared.head.put(0, 1, keys(1, 2, 3))
    c.settle()
    val before = c.nodes(1).counters(ExchangeCounter.sent)
    shared(1).put(1, 2, keys(7, 8, 9))
    c.settle()
    assert(c.nodes(1).counters(ExchangeCounter.sent) == before)
  }

  test("an execution that ended is dropped everywhere, and what is said of it later is refused") {
    val c = new SimulatedCluster(2, source(top3))
    val shared = c.nodes.map(topK(_))
    shared.head.put(0, 1, keys(1, 2, 3))
    c.settle()
    assert(c.coordinator.liveExecutions == 1)
    c.executions.close(1)
    c.settle()
    assert(c.coordinator.liveExecutions == 0 && c.nodes.forall(_.executions.live == 0))
    shared.head.put(0, 1, keys(0, 1, 2))
    c.settle()
    assert(c.coordinator.liveExecutions == 0 && c.counters(ExchangeCounter.refusedUnknown) > 0)
  }

  test("an executor whose tasks asked for no filter, only used a complete one, is told of the end too") {
    val c = new SimulatedCluster(2, source(top3))
    c.nodes.foreach { n =>
      n.executions.enter(1)
      n.executions.attach(1, "decoded")(new Object)
      n.executions.leave(1)
    }
    c.settle()
    assert(c.nodes.forall(_.executions.live == 1) && c.coordinator.liveExecutions == 1)
    c.executions.close(1)
    c.settle()
    assert(c.nodes.forall(_.executions.live == 0) && c.coordinator.liveExecutions == 0)
    // One that comes late is told at once.
    c.nodes.head.link.joined(1)
    c.settle()
    assert(c.coordinator.liveExecutions == 0)
  }

  test("an executor that missed the end sweeps by age, or is told when it asks") {
    val lossy = new SimulatedCluster(1, source(top3))
    lossy.executions.close(1)
    topK(lossy.nodes.head)
    assert(lossy.nodes.head.executions.live == 1)
    lossy.settle()
    assert(lossy.nodes.head.executions.live == 0)
    val silent = new SimulatedCluster(1, source(top3), Trouble(lost = 1))
    topK(silent.nodes.head)
    (0 until 30).foreach(_ => silent.settle())
    assert(silent.nodes.head.executions.live == 0)
  }

  test("a lost executor gets no more messages, and what it found stays") {
    val c = new SimulatedCluster(2, source(top3))
    val shared = c.nodes.map(topK(_))
    shared.head.put(0, 1, keys(1, 2, 3))
    c.settle()
    c.coordinator.peerLost("0")
    shared(1).put(1, 2, keys(0, 0, 0))
    c.settle()
    assert(bound(shared(1)) == int.fromInternal(0) && bound(shared.head) == int.fromInternal(3))
  }

  private def state(id: Long) = new JoinState(id, nullsMatch = false, limits)
  private def collected(values: Iterable[Int], limits: KeyLimits = limits): Array[Byte] = {
    val c = KeyCollector(int, limits, 1)
    values.foreach(v => c.add(InternalRow(v), 0))
    c.result().encode
  }
  private def complete(s: JoinState, values: Iterable[Int]): Unit = {
    s.started(1)
    s.offer(0, collected(values), outgrown = false)
  }

  test("a join's filter that is complete late reaches those who asked for it, before or after") {
    val s = state(9)
    val c = new SimulatedCluster(3, source(top3, s))
    assert(c.nodes.take(2).forall(n => late(n).isEmpty))
    c.settle()
    complete(s, Seq(1, 5))
    c.settle()
    assert(late(c.nodes(2)).isEmpty)
    c.settle()
    c.nodes.foreach { n =>
      val f = late(n).get
      assert(f.passes(int.fromInternal(5)) && !f.passes(int.fromInternal(3)))
    }
  }

  private def stored(node: SimulatedCluster#Node, name: FilterName): Option[ValueFilter] =
    node.executions.contents(Some(1), name)(None)

  test("contents that were pushed are those that a snapshot names") {
    val s = state(9)
    val c = new SimulatedCluster(1, source(top3, s))
    late(c.nodes.head)
    c.settle()
    complete(s, Seq(1, 5))
    c.settle()
    assert(stored(c.nodes.head, s.named.get.name).exists(_ eq late(c.nodes.head).get))
  }

  test("a filter that follows another has generations of its own and of the other") {
    val (mine, other) = (state(9), state(8))
    mine.follow(other)
    complete(other, Seq(1))
    assert(mine.named.map(_.name) == Some(FilterName(9, 8)) && other.named.map(_.name) == Some(FilterName(8, 8)))
    complete(mine, Seq(1))
    assert(mine.named.map(_.name) == Some(FilterName(9, 9)))
  }

  test("a join's filter that is given up leaves all rows") {
    val s = state(9)
    val c = new SimulatedCluster(1, source(top3, s))
    late(c.nodes.head)
    c.settle()
    s.disable(Reasons.QueryEnded)
    c.settle()
    assert(late(c.nodes.head).isEmpty)
  }

  test("a filter that comes after all of its scans is withheld") {
    val s = state(9)
    val c = new SimulatedCluster(1, source(top3, s))
    s.scanStarted(3)
    late(c.nodes.head)
    c.settle()
    s.scanEnded(3)
    complete(s, Seq(1, 5))
    c.settle()
    assert(late(c.nodes.head).isEmpty && c.counters(ExchangeCounter.withheldLate) > 0)
  }

  test("a large filter is not sent to running scans") {
    val wide = limits.copy(maxRows = 10000000, inMaxValues = 10000000, maxFilterBytes = 64 << 20)
    val big = new JoinState(9, false, wide)
    val c = new SimulatedCluster(2, source(top3, big))
    c.nodes.foreach(late)
    c.settle()
    // No order and no neighbours: no form makes them small.
    val random = new scala.util.Random(1)
    big.started(1)
    big.offer(0, collected(Seq.fill(3000000)(random.nextInt()), wide), outgrown = false)
    assert(big.phase.asInstanceOf[JoinPhase.Ready].bytes > MessageCodec.MostPushedBytes)
    c.settle()
    assert(c.nodes.forall(n => late(n).isEmpty))
    assert(c.counters(ExchangeCounter.notSentTooLong) > 0)
  }

  /** A task that asks holds its slot: with the filter built under the lock it waited for seconds. */
  test("a bound is told while a join's filter is built") {
    val s = state(9)
    val c = new SimulatedCluster(1, source(top3, s))
    complete(s, Seq(1, 5))
    val (isBuilding, mayEnd) = (new CountDownLatch(1), new CountDownLatch(1))
    s.record.setMetrics(new JoinRecord.Metrics {
      override def complete(bytes: Int, distinct: Option[Long]): Unit = { isBuilding.countDown(); mayEnd.await() }
      override def waited(millis: Long): Unit = ()
    })
    val subscribe = MessageCodec.subscribe(1, FilterName(9, 0)).toByteArray
    val building = new Thread(() => c.coordinator.received("0", subscribe))
    building.start()
    isBuilding.await()
    val asking = new Thread(() => assert(c.coordinator.bound(1, name).isNone))
    asking.start()
    asking.join(5000)
    val isAsking = asking.isAlive
    mayEnd.countDown()
    building.join(5000)
    assert(!isAsking)
  }

  test("a task that asks does not wait until a large filter is built") {
    val wide = limits.copy(maxRows = 1000000, inMaxValues = 1000000, maxFilterBytes = 64 << 20)
    val (small, large) = (state(8), new JoinState(9, nullsMatch = false, wide))
    val c = new SimulatedCluster(1, source(top3, small, large))
    complete(small, Seq(1, 5))
    assert(c.coordinator.currentForTask(small).isDefined)
    val random = new scala.util.Random(1)
    large.started(1)
    large.offer(0, collected(Seq.fill(500000)(random.nextInt()), wide), outgrown = false)
    // Filters are not shown where this fails.
    def isThere = c.coordinator.currentForTask(large).isDefined
    assert(!isThere)
    c.driverSchedule.runAll()
    assert(isThere)
  }

  test("messages that are none are counted and change nothing") {
    val c = new SimulatedCluster(1, source(top3))
    val t = topK(c.nodes.head)
    c.settle()
    def driverGets(bytes: Array[Byte], counter: ExchangeCounter.Value): Unit = {
      val before = c.counters(counter)
      c.coordinator.received("0", bytes)
      assert(c.counters(counter) == before + 1, counter)
    }
    driverGets(Array[Byte](1, 2, 3), ExchangeCounter.refusedMalformed)
    driverGets(Array.emptyByteArray, ExchangeCounter.refusedOtherVersion)
    driverGets(new Array[Byte](MessageCodec.MaxBytes + 1), ExchangeCounter.refusedTooLong)
    driverGets(MessageCodec.ended(1).toByteArray, ExchangeCounter.refusedMalformed)
    driverGets(MessageCodec.subscribe(1, FilterName(99, 1)).toByteArray, ExchangeCounter.refusedUnknown)
    c.settle()
    assert(t.bound.isNone)
  }

  test("a bound that is older or looser than what an executor knows changes nothing") {
    val t = new TopKState(top3)
    t.put(0, 1, keys(1, 2, 3))
    assert(t.adopt(TopKBound(99, int.fromInternal(4), 0)) == TopKState.Outcome.NotTighter)
    assert(t.adopt(TopKBound(1, int.fromInternal(3), 0)) == TopKState.Outcome.NotTighter)
    assert(t.adopt(TopKBound(1, int.fromInternal(2), 4)) == TopKState.Outcome.Tightened && t.bound.generation == 2)
  }

  Seq(
    "no trouble" -> Trouble(),
    "losses" -> Trouble(lost = 0.4),
    "messages doubled and late" -> Trouble(doubled = 0.3, late = 0.6),
    "all at once" -> Trouble(lost = 0.2, doubled = 0.2, late = 0.4)
  ).foreach { case (what, trouble) =>
    Values.all.foreach { t =>
      test(s"with $what between executors the best rows by $t are there") {
        val runs = for {
          few <- Gen.listOfN(3, t.nullable)
          column <- Gen.oneOf(t.nullable, t.notNull, Gen.oneOf(few))
          sizes <- Gen.choose(1, 6).flatMap(Gen.listOfN(_, Gen.choose(0, 50)))
          parts <- sizes.foldRight(Gen.const(List.empty[List[Any]])) { (n, tail) =>
            for (head <- Gen.listOfN(n, column); rest <- tail) yield head :: rest
          }
          limit <- Gen.choose(1, 9)
          ascending <- Gen.oneOf(true, false)
          nullsFirst <- Gen.oneOf(true, false)
          tiesFree <- Gen.oneOf(true, false)
          distinct <- if (tiesFree) Gen.const(false) else Gen.oneOf(true, false)
          seed <- Gen.long
        } yield (TopKSpec(t.domain, limit, ascending, nullsFirst, tiesFree, distinct), parts, seed)
        forAll(runs) { case (spec, parts, seed) =>
          val c = new SimulatedCluster(3, source(spec), trouble, seed)
          val random = new java.util.Random(seed)
          val rows = parts.map(_.map(v => SimulatedRow(t.domain.fromInternal(v), random.nextInt(4))).toIndexedSeq)
          new TopKSimulation(spec, rows.toIndexedSeq, seed, c.nodes.map(topK(_, spec)), () => c.step()).run()
        }
      }
    }
  }
}
