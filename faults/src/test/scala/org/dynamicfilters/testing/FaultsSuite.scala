package org.dynamicfilters.testing

import scala.collection.mutable

import org.dynamicfilters.exchange.{ExchangeCounter, MessageCodec, Schedule}
import org.apache.spark.sql.types.BinaryType
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{FilterCodec, KeyDomain}
import org.dynamicfilters.state.{FilterName, TopKBound}
import org.scalatest.funsuite.AnyFunSuite

/** Decisions over faults, and what a way does to its updates. */
class FaultsSuite extends AnyFunSuite {
  private def faults(text: String): Faults = new Faults(FaultSpec.parse(text).toOption.get)

  test("the same seed decides alike, another one otherwise") {
    def decisions(seed: Int) = {
      val f = faults(s"seed=$seed,lost=0.2,late=0.2,duplicated=0.2,failingTasks=0.5")
      (1 to 200).map(n => (f.ofUpdate("way", n.toLong), f.fails(n.toString)))
    }
    assert(decisions(1) == decisions(1))
    assert(decisions(1) != decisions(2))
  }

  test("shares are kept") {
    val f = faults("seed=4,lost=0.1,late=0.2,duplicated=0.05,reordered=0.25,undecodable=0.15")
    val n = 20000
    val seen = (1 to n).groupMapReduce(i => f.ofUpdate("w", i.toLong))(_ => 1.0 / n)(_ + _)
    val expected = Map(
      UpdateFault.None -> 0.25,
      UpdateFault.Lost -> 0.1,
      UpdateFault.Late -> 0.2,
      UpdateFault.Duplicated -> 0.05,
      UpdateFault.Reordered -> 0.25,
      UpdateFault.Undecodable -> 0.15
    )
    expected.foreach { case (what, share) => assert(math.abs(seen(what) - share) < 0.02, what) }
    assert((1 to 100).forall(i => faults("lost=1").ofUpdate("w", i.toLong) == UpdateFault.Lost))
    assert((1 to 100).forall(i => faults("").ofUpdate("w", i.toLong) == UpdateFault.None))
  }

  test("a wrong specification is refused with what is wrong") {
    def refusal(text: String) = FaultSpec.parse(text).left.toOption.get
    assert(refusal("lost=2") == "lost cannot be 2; it takes a share from 0 to 1")
    assert(refusal("lost=NaN").startsWith("lost cannot be NaN"))
    assert(refusal("burnt=1").startsWith("there is no fault burnt; there are seed, lost"))
    assert(refusal("lost") == "lost is not of the form key=value")
    assert(refusal("lost=0.9,late=0.2").contains("together they are above 1"))
    assert(refusal("killedExecutors=-1").contains("it takes a number from 0 to 100"))
  }

  /** A way whose clock the test turns. */
  private final class Turned(text: String) extends FaultLedger with Schedule {
    val due = mutable.ArrayBuffer.empty[() => Unit]
    val arrived = mutable.ArrayBuffer.empty[String]
    val noted = mutable.ArrayBuffer.empty[FaultCounter.Value]
    override def later(millis: Long)(work: => Unit): Boolean = { due += (() => work); true }
    override def note(c: FaultCounter.Value): Unit = noted += c
    override def claim(c: FaultCounter.Value, executionId: Long, most: Int): Boolean = false
    override def trace(event: TraceEvent): Unit = ()
    private val way = new FaultyWay("way", faults(text), this, this)
    def send(names: String*): Unit =
      names.foreach(n => way.pass(() => arrived += n, Some(() => arrived += s"broken $n")))
    def tick(): Unit = { val now = due.toSeq; due.clear(); now.foreach(_()) }
  }

  test("updates are lost, doubled, late and broken, and each is counted") {
    def sent(text: String) = { val w = new Turned(text); w.send("a", "b"); w }
    assert(sent("lost=1").arrived.isEmpty)
    assert(sent("duplicated=1").arrived == Seq("a", "a", "b", "b"))
    assert(sent("undecodable=1").arrived == Seq("broken a", "broken b"))
    val late = sent("late=1")
    assert(late.arrived.isEmpty && late.noted == Seq(FaultCounter.faultLate, FaultCounter.faultLate))
    late.tick()
    assert(late.arrived == Seq("a", "b"))
  }

  test("a reordered update comes after the next one, or alone after a while") {
    val seed = (0 to 1000).find { s =>
      val f = faults(s"seed=$s,reordered=0.5")
      (1 to 3).map(n => f.ofUpdate("way", n.toLong)) == Seq(
        UpdateFault.Reordered,
        UpdateFault.None,
        UpdateFault.Reordered
      )
    }.get
    val w = new Turned(s"seed=$seed,reordered=0.5")
    w.send("a", "b")
    assert(w.arrived == Seq("b", "a"))
    w.send("c")
    w.tick()
    w.tick()
    assert(w.arrived == Seq("b", "a", "c"))
  }

  test("what stands for a message or a filter is understood by nobody") {
    val message = MessageCodec.subscribe(5, FilterName(7, 1)).toByteArray
    val join = MessageCodec.contents(5, FilterName(7, 1), Array[Byte](1, 2, 3)).toByteArray
    val refusals = (0 to 40).flatMap { i =>
      val bound = TopKBound(1, UTF8String.fromBytes(new Array[Byte](i)), 0)
      val longer = MessageCodec.bound(5, FilterName(7, 1), KeyDomain.known(BinaryType), bound).toByteArray
      MessageCodec.decode(Broken(longer)).left.toOption
    }
    assert(refusals.size == 41)
    assert(
      refusals.toSet == Set(
        ExchangeCounter.refusedMalformed,
        ExchangeCounter.refusedOtherVersion,
        ExchangeCounter.refusedTooLong
      )
    )
    assert(MessageCodec.decode(Broken(message)).isLeft)
    assert(FilterCodec.decode(Broken.Bytes).isLeft)
    assert(MessageCodec.decode(Broken(join)).forall { m =>
      m.hasJoinFilter && FilterCodec.decode(m.getJoinFilter.getEncoded.toByteArray).isLeft
    })
  }

  test("a fault happens as often as it was claimed for an execution, not more") {
    val ledger = new DriverLedger
    def claim(execution: Long) = ledger.claim(FaultCounter.faultExecutorKilled, execution, 2)
    assert(Seq(claim(1), claim(1), claim(1), claim(2)) == Seq(true, true, false, true))
    assert(ledger.counters(FaultCounter.faultExecutorKilled) == 3)
  }

  test("an event that is traced survives its way as text") {
    val e = TraceEvent("1", 7, "adopted", 3, "a|key", 1234567890123L)
    assert(TraceEvent.read(e.text).contains(e))
    assert(TraceEvent.read("nonsense").isEmpty)
  }
}
