package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.dynamicfilters.filter.{KeyCodec, ValueFilter}
import org.dynamicfilters.proto._
import org.dynamicfilters.proto.SnapshotFilterMessage.FormCase
import org.dynamicfilters.state._

/** Encodes the schedule of a partition as bytes (proto/exchange.proto), and decodes it. */
object SnapshotCodec {

  /** @param topKs by filter, if the filters are bounds
    */
  def encode(schedule: Vector[ScheduleEntry], topKs: IndexedSeq[TopKSpec]): Array[Byte] = {
    val all = ScheduleMessage.newBuilder()
    schedule.foreach { e =>
      val entry = ScheduleEntryMessage.newBuilder().setFrom(MessageCodec.place(e.from))
      e.filters.indices.foreach(i => entry.addFilters(encode(e.filters(i), topKs.lift(i))))
      all.addEntries(entry)
    }
    all.build().toByteArray
  }

  private def encode(f: SnapshotFilter, topK: Option[TopKSpec]): SnapshotFilterMessage = {
    val m = SnapshotFilterMessage.newBuilder()
    f match {
      case SnapshotFilter.Unknown =>
      case SnapshotFilter.Travelled(tested) => m.setTravelled(SnapshotTravelled.newBuilder().setTested(tested))
      case SnapshotFilter.Values(name, tested) =>
        m.setValues(SnapshotValues.newBuilder().setName(MessageCodec.name(name)).setTested(tested))
      case SnapshotFilter.Bound(b) =>
        val bound = SnapshotBound.newBuilder().setGeneration(b.generation).setPartition(b.partition)
        Option(b.key).foreach(k => bound.setKey(KeyCodec.key(topK.get.domain, k)))
        m.setBound(bound)
    }
    m.build()
  }

  /** Decodes the whole schedule or fails, because every attempt must have the same.
    *
    * @param contents finds the contents of a named filter
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
          decode(m, table.topKs.lift(i), contents)
        }
        ScheduleEntry(MessageCodec.place(e.getFrom), filters.toIndexedSeq)
      }
      .toVector
    require(schedule.nonEmpty, "no snapshot")
    schedule
  }

  private def decode(
      m: SnapshotFilterMessage,
      topK: Option[TopKSpec],
      contents: FilterName => Option[ValueFilter]
  ): SnapshotFilter = m.getFormCase match {
    case FormCase.VALUES =>
      val name = MessageCodec.name(m.getValues.getName)
      SnapshotFilter.Values(name, m.getValues.getTested)(contents(name).get)
    case FormCase.TRAVELLED => SnapshotFilter.Travelled(m.getTravelled.getTested)
    case FormCase.BOUND =>
      val b = m.getBound
      val key = if (b.hasKey) MessageCodec.key(topK.get.domain, b.getKey) else null
      SnapshotFilter.Bound(TopKBound(b.getGeneration, key, b.getPartition))
    case _ => SnapshotFilter.Unknown
  }
}
