package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.proto._
import org.dynamicfilters.proto.SnapshotFilterMessage.FormCase
import org.dynamicfilters.state._

/** Encodes the schedule of a partition as bytes (proto/exchange.proto), and decodes it. */
object SnapshotCodec {

  /** @param topKs
    *   by filter, if the filters are bounds
    */
  def encode(schedule: Vector[ScheduleEntry], topKs: IndexedSeq[TopKSpec]): Array[Byte] = {
    val all = ScheduleMessage.newBuilder()
    schedule.foreach { e =>
      val entry = ScheduleEntryMessage.newBuilder().setFrom(MessageCodec.encodePlace(e.from))
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
        m.setValues(SnapshotValues.newBuilder().setName(MessageCodec.encodeName(name)).setTested(tested))
      case SnapshotFilter.Bound(b) =>
        val bound = SnapshotBound.newBuilder().setGeneration(b.generation).setPartition(b.partition)
        Option(b.key).foreach(k => bound.setKey(MessageCodec.encodeKey(WireKey.encode(topK.get.domain, k))))
        m.setBound(bound)
    }
    m.build()
  }

  /** Decodes the whole schedule or fails, because every attempt must have the same.
    *
    * @param contents
    *   finds the contents of a named filter
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
        ScheduleEntry(MessageCodec.decodePlace(e.getFrom), filters.toIndexedSeq)
      }
      .toVector
    require(
      schedule.forall(_.filters.size == table.onlyFirst.head.filters.size),
      "a snapshot has too few or many filters"
    )
    require(schedule.headOption.exists(_.from == ReadPlace.start), "no snapshot for the start of the partition")
    require(
      schedule.zip(schedule.drop(1)).forall { case (a, b) => a.from < b.from },
      "places are not in ascending order"
    )
    schedule
  }

  private def decode(
      m: SnapshotFilterMessage,
      topK: Option[TopKSpec],
      contents: FilterName => Option[ValueFilter]
  ): SnapshotFilter = m.getFormCase match {
    case FormCase.VALUES =>
      val name = MessageCodec.decodeName(m.getValues.getName)
      SnapshotFilter.Values(name, m.getValues.getTested)(contents(name).get)
    case FormCase.TRAVELLED => SnapshotFilter.Travelled(m.getTravelled.getTested)
    case FormCase.BOUND =>
      val (b, spec) = (m.getBound, topK.get)
      val key = MessageCodec.decodeKey(b.getKey).map(_.decode(spec.domain).fold(why => sys.error(why), identity))
      require(key.isDefined || b.getGeneration == 0 || spec.nullsFirst, "a bound of NULL where nulls are not counted")
      SnapshotFilter.Bound(TopKBound(b.getGeneration, key.orNull, b.getPartition))
    case _ => SnapshotFilter.Unknown
  }
}
