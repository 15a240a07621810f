package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.proto._
import org.dynamicfilters.state._

/** The schedule of a partition as bytes (proto/exchange.proto), and back. */
object SnapshotCodec {

  /** @param topKs
    *   by filter, for those that are bounds
    */
  def encode(schedule: Vector[ScheduleEntry], topKs: IndexedSeq[TopKSpec]): Array[Byte] = {
    val all = ScheduleMessage.newBuilder()
    schedule.foreach { e =>
      val one = ScheduleEntryMessage.newBuilder().setFrom(MessageCodec.placeMessage(e.from))
      e.filters.indices.foreach(i => one.addFilters(message(e.filters(i), topKs.lift(i))))
      all.addEntries(one)
    }
    all.build().toByteArray
  }

  private def message(f: SnapshotFilter, topK: Option[TopKSpec]): SnapshotFilterMessage = {
    val m = SnapshotFilterMessage.newBuilder()
    f match {
      case SnapshotFilter.Unknown =>
      case SnapshotFilter.Travelled(tested) => m.setTravelled(SnapshotTravelled.newBuilder().setTested(tested))
      case SnapshotFilter.Values(name, tested) =>
        m.setValues(SnapshotValues.newBuilder().setName(MessageCodec.nameMessage(name)).setTested(tested))
      case SnapshotFilter.Bound(b) =>
        val bound = SnapshotBound.newBuilder().setGeneration(b.generation).setPartition(b.partition)
        Option(b.key).foreach(k => bound.setKey(MessageCodec.keyMessage(WireKey.of(topK.get.domain, k))))
        m.setBound(bound)
    }
    m.build()
  }

  /** The whole schedule or nothing, because every attempt must have the same.
    *
    * @param contents
    *   finds what a name stands for
    */
  def decode(
      bytes: Array[Byte],
      table: SnapshotsRef,
      contents: FilterName => Option[ValueFilter]
  ): Try[Vector[ScheduleEntry]] = Try {
    val schedule = ScheduleMessage
      .parseFrom(bytes)
      .getEntriesList
      .asScala
      .map { e =>
        val filters = e.getFiltersList.asScala.zipWithIndex.map { case (m, i) =>
          read(m, table.topKs.lift(i), contents)
        }
        ScheduleEntry(MessageCodec.place(e.getFrom), filters.toIndexedSeq)
      }
      .toVector
    require(schedule.forall(_.filters.size == table.onlyFirst.head.filters.size), "snapshots of another size")
    require(schedule.headOption.exists(_.from == ReadPlace.start), "no snapshot of the start")
    require(schedule.zip(schedule.drop(1)).forall { case (a, b) => a.from < b.from }, "places that do not ascend")
    schedule
  }

  private def read(
      m: SnapshotFilterMessage,
      topK: Option[TopKSpec],
      contents: FilterName => Option[ValueFilter]
  ): SnapshotFilter = m.getFormCase match {
    case SnapshotFilterMessage.FormCase.VALUES =>
      val name = MessageCodec.name(m.getValues.getName)
      SnapshotFilter.Values(name, m.getValues.getTested)(contents(name).get)
    case SnapshotFilterMessage.FormCase.TRAVELLED => SnapshotFilter.Travelled(m.getTravelled.getTested)
    case SnapshotFilterMessage.FormCase.BOUND =>
      val (b, spec) = (m.getBound, topK.get)
      val key = MessageCodec.readKey(b.getKey).map(WireKey.read(spec.domain, _).fold(why => sys.error(why), identity))
      require(key.isDefined || b.getGeneration == 0 || spec.nullsFirst, "a bound of NULL where nulls are not counted")
      SnapshotFilter.Bound(TopKBound(b.getGeneration, key.orNull, b.getPartition))
    case _ => SnapshotFilter.Unknown
  }
}
