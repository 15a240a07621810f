package org.dynamicfilters.exchange

import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.{End, KeyDomain, UserForms, ValueFilter}
import org.scalatest.funsuite.AnyFunSuite

/** With which filters partitions below an exchange are computed (contract 8). */
class SnapshotsSuite extends AnyFunSuite {
  import SnapshotFilter._

  private val domain = KeyDomain.of(LongType).toOption.get
  private def upTo(n: Long): ValueFilter =
    ValueFilter.range(domain, None, Some(End(Long.box(n), inclusive = true)), nulls = false)
  private val execution = Some(7L)

  /** A table of one filter, which is `now`. */
  private final class OneFilter(giveUp: Double = 1.0) {
    var now: Option[ValueFilter] = None
    val table = new Snapshots(
      IndexedSeq(Unknown),
      (_, tested) => IndexedSeq(now.fold[SnapshotFilter](Unknown)(Values(_, tested(0)))),
      giveUpSelectivity = giveUp
    )
    def take(partition: Int): SnapshotFilter = table.take(partition, execution).filters.head
  }

  test("a later attempt of a partition is given what the first one was given, others what is newest") {
    val one = new OneFilter
    assert(one.take(0) == Unknown)
    one.now = Some(upTo(10))
    assert(one.take(0) == Unknown)
    assert(one.take(1) == Values(one.now.get, tested = true))
    val before = one.now.get
    one.now = Some(upTo(5))
    assert(one.take(0) == Unknown)
    assert(one.take(1) == Values(before, tested = true))
    assert(one.take(2) == Values(one.now.get, tested = true))
    assert(one.table.size == 3)
  }

  test("partitions that start with the same filters share a snapshot") {
    val one = new OneFilter
    one.now = Some(upTo(10))
    assert((0 until 100).map(one.table.take(_, execution).number).toSet == Set(1))
  }

  test("an attempt without an answer makes the first snapshot that of its partition, once it has succeeded") {
    val one = new OneFilter
    one.now = Some(upTo(10))
    val asked = one.take(3)
    val onTask = new SnapshotUses(null)
    onTask.add(SnapshotUse(3, usedFirst = true, IndexedSeq((0L, 0L))))
    assert(one.take(3) == asked, "it has not succeeded")
    new SnapshotUses(one.table).merge(onTask)
    assert(one.take(3) == Unknown)
  }

  test("where most rows pass, partitions that have not started do not test theirs; now and then one does") {
    val one = new OneFilter(giveUp = 0.5)
    one.now = Some(upTo(10))
    val uses = new SnapshotUses(one.table)
    def report(rows: Long, passed: Long): Unit = {
      val onTask = new SnapshotUses(null)
      onTask.add(SnapshotUse(0, usedFirst = false, IndexedSeq((rows, passed))))
      uses.merge(onTask)
    }
    assert(one.take(0) == Values(one.now.get, tested = true))
    report(100, 100)
    assert(one.take(1) == Values(one.now.get, tested = true), "few rows say nothing")
    report(1000000, 900000)
    assert(one.take(0) == Values(one.now.get, tested = true), "it has started")
    val later = (2 to 40).map(one.take)
    assert(later.count(_ == Values(one.now.get, tested = false)) >= 36)
    assert(later.contains(Values(one.now.get, tested = true)))
    report(20000000, 0)
    assert(one.take(41) == Values(one.now.get, tested = true))
  }

  private val topK = TopKSpec(domain, 10, ascending = true, nullsFirst = true, tiesFree = true)

  test("snapshots go over the wire and come back; what is none is refused") {
    val all = IndexedSeq(
      Unknown,
      Values(upTo(3), tested = false),
      Bound(TopKBound(4, Long.box(-9), 2)),
      Bound(TopKBound(2, null, 1)),
      Bound(TopKBound.none)
    )
    val specs = IndexedSeq.fill(all.size)(topK)
    val bytes = SnapshotCodec.encode(all, specs)
    assert(SnapshotCodec.decode(bytes, all.size, specs) == Right(all))
    assert(SnapshotCodec.decode(bytes, all.size + 1, specs).isLeft)
    assert(SnapshotCodec.decode(bytes, all.size, IndexedSeq.empty).isLeft)
    val nullsLast = specs.map(_.copy(nullsFirst = false))
    assert(SnapshotCodec.decode(bytes, all.size, nullsLast).isLeft)
    bytes.indices.foreach { i =>
      // Never an exception, whatever was lost.
      SnapshotCodec.decode(bytes.take(i), all.size, specs)
    }
  }

  private object NoPeers extends Peers {
    var large = 0
    override def send(peer: String, message: Array[Byte], payload: Option[Payload]): Boolean = false
    override def payload(bytes: Array[Byte]): Payload = { large += bytes.length; () => () }
  }

  private object Now extends Schedule {
    override def later(millis: Long)(work: => Unit): Boolean = { work; true }
  }

  private val coordinator =
    new Coordinator(FilterRef, NoPeers, Now, ExchangePace(), new ExchangeCounters, () => System.nanoTime())

  private def ask(table: Long, partition: Int): Option[(Message.SnapshotReply, Option[Payload])] =
    coordinator.asked(MessageCodec.encode(Message.SnapshotRequest(7, table, partition))).map { case (bytes, payload) =>
      (MessageCodec.decode(bytes).toOption.get.asInstanceOf[Message.SnapshotReply], payload)
    }

  test("the driver answers what it is asked for: nothing for what travelled, large filters beside the answer") {
    val one = new OneFilter
    val ref = new SnapshotsRef(one.table)
    assert(ask(ref.id, 0).get._1.number == 0)
    assert(ask(ref.id, 0).get._1.content.isEmpty)
    one.now = Some(upTo(10))
    val (small, beside) = ask(ref.id, 1).get
    assert(small.number == 1 && beside.isEmpty)
    assert(
      SnapshotCodec.decode(small.content.get, 1, IndexedSeq.empty) == Right(IndexedSeq(Values(upTo(10), tested = true)))
    )
    one.now =
      Some(UserForms.values(domain, Iterator.range(0, 100000, 3).map(i => Long.box(i.toLong)), nulls = false, 100000))
    val (large, payload) = ask(ref.id, 2).get
    assert(large.number == 2 && large.content.isEmpty && payload.isDefined)
    val sent = NoPeers.large
    assert(ask(ref.id, 3).get._2.isDefined && NoPeers.large == sent, "made once")
    assert(ask(ref.id + 1000000, 0).isEmpty)
    assert(coordinator.asked(Array[Byte](1, 2, 3)).isEmpty)
    assert(coordinator.asked(MessageCodec.encode(Message.Ended(7))).isEmpty)
  }
}
