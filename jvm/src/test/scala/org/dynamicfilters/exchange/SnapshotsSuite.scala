package org.dynamicfilters.exchange

import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.{End, FilterCodec, KeyDomain, ValueFilter}
import org.dynamicfilters.proto.SnapshotReply
import org.dynamicfilters.state._
import org.scalatest.funsuite.AnyFunSuite

/** With which filters partitions below an exchange are computed (contract 8). */
class SnapshotsSuite extends AnyFunSuite {
  import SnapshotFilter._

  private val domain = KeyDomain.forType(LongType).toOption.get
  private def upTo(n: Long): ValueFilter =
    ValueFilter.range(domain, None, Some(End(Long.box(n), inclusive = true)), nulls = false)
  private val execution = Some(7L)

  private def values(name: Long, filter: ValueFilter = null) = Values(FilterName(3, name))(filter)

  /** A table of one filter, of which `now` is the newest generation. */
  private final class OneFilter(mostBytes: Long = Long.MaxValue) {
    private var generation = 0L
    private var filter: Option[ValueFilter] = None
    def now: SnapshotFilter = filter.fold[SnapshotFilter](Unknown)(values(generation, _))
    def now_=(f: ValueFilter): Unit = { generation += 1; filter = Some(f) }
    val table = new Snapshots(
      IndexedSeq(Unknown),
      _ => IndexedSeq(now),
      mostBytes = mostBytes
    )

    /** What an attempt is given. */
    def take(partition: Int): SnapshotFilter = table.ofPartition(partition, isFirst = true, execution).head
  }

  test("a later attempt of a partition is given what the first one was given, others what is newest") {
    val one = new OneFilter
    assert(one.take(0) == Unknown)
    one.now = upTo(10)
    assert(one.take(0) == Unknown)
    assert(one.take(1) == one.now)
    val before = one.now
    one.now = upTo(5)
    assert(one.take(0) == Unknown)
    assert(one.take(1) == before)
    assert(one.take(2) == one.now)
    assert(one.table.size == 3)
  }

  test("partitions that start with the same filters share a snapshot") {
    val one = new OneFilter
    one.now = upTo(10)
    assert((0 until 100).map(one.take).toSet == Set(one.now))
    assert(one.table.size == 2)
  }

  test("an attempt without an answer makes the first snapshot that of its partition, once it has succeeded") {
    val one = new OneFilter
    one.now = upTo(10)
    val asked = one.take(3)
    val onTask = new ResultItems[Int](null)
    onTask.add(3)
    assert(one.take(3) == asked, "it has not succeeded")
    new ResultItems[Int](one.table.usedFirst).merge(onTask)
    assert(one.take(3) == Unknown)
  }

  private val topK = TopKSpec(domain, 10, ascending = true, nullsFirst = true, tiesFree = true)

  test("snapshots go over the wire by names and come back with contents; what is none is refused") {
    val all = IndexedSeq(
      Unknown,
      values(3, upTo(3)),
      Travelled,
      Bound(TopKBound(4, Long.box(-9), 2)),
      Bound(TopKBound(2, null, 1)),
      Bound(TopKBound.none)
    )
    def table(size: Int, specs: Seq[TopKSpec]) =
      new SnapshotsRef(
        new Snapshots(IndexedSeq.fill(size)(Unknown), _ => ???, specs.toIndexedSeq),
        isShared = true,
        mayChange = true
      )
    def read(size: Int = all.size, specs: Seq[TopKSpec] = all.map(_ => topK), known: Boolean = true, of: Long = 0) = {
      val ref = table(size, specs)
      val reply = MessageCodec.snapshot(1, ref.id + of, all, all.map(_ => topK))
      MessageCodec.snapshot(reply.getSnapshotReply, ref, n => Option.when(known)(upTo(n.run)))
    }
    assert(read().toOption.contains(all))
    assert(read().get.collect { case v: Values => v.filter } == Seq(upTo(3)))
    assert(read(known = false).isFailure)
    assert(read(specs = Nil).isFailure)
    assert(read(size = all.size - 1).isFailure && read(size = all.size + 1).isFailure)
    assert(read(of = 1).isFailure, "of another table")
  }

  private object Now extends Schedule {
    override def later(millis: Long)(work: => Unit): Boolean = { work; true }
  }

  private val coordinator =
    new Coordinator(
      Executions.instance,
      FilterRef,
      new Outbox((_, _) => false, new ExchangeCounters, () => System.nanoTime()),
      Now
    )

  private def ask(table: Long, partition: Int): Option[SnapshotReply] =
    coordinator
      .asked(MessageCodec.snapshotRequest(7, table, partition, isFirst = true).toByteArray)
      .map(a => MessageCodec.decode(a).toOption.get.getSnapshotReply)

  private def contents(table: Long, generation: Long): Option[Array[Byte]] =
    coordinator
      .asked(MessageCodec.filterRequest(7, table, FilterName(3, generation)).toByteArray)
      .map(a => MessageCodec.decode(a).toOption.get.getJoinFilter.getEncoded.toByteArray)

  test("the driver answers with names, and with what they stand for if it is asked") {
    val one = new OneFilter
    val ref = new SnapshotsRef(one.table, isShared = true, mayChange = true)
    def asked(partition: Int) =
      MessageCodec.snapshot(ask(ref.id, partition).get, ref, n => Option.when(n.filterId == 3)(upTo(10))).get
    assert(asked(0) == one.table.first)
    one.now = upTo(10)
    assert(asked(1) == Vector(one.now))
    assert(FilterCodec.decode(contents(ref.id, 1).get) == Right(upTo(10)))
    assert(contents(ref.id, 2).isEmpty, "no snapshot has it")
    assert(ask(ref.id + 1000000, 0).isEmpty)
    assert(coordinator.asked(Array[Byte](1, 2, 3)).isEmpty)
    assert(coordinator.asked(MessageCodec.ended(7).toByteArray).isEmpty)
  }

  test("partitions that start when there are many filters already go on with the last one") {
    val one = new OneFilter(mostBytes = 100)
    val taken = (1 to 20).map { i =>
      one.now = upTo(100 - i)
      one.take(i)
    }
    assert(taken.head == values(1))
    assert(taken.distinct.size < 10 && taken.distinct.size > 1)
    assert(taken.distinct == taken.distinct.indices.map(i => values(1L + i)))
    assert(one.take(20) == taken.last && one.table.size == taken.distinct.size + 1)
  }
}
