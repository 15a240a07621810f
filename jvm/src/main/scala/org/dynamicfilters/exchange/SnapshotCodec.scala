package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.proto._
import org.dynamicfilters.proto.SnapshotFilterMessage.FormCase
import org.dynamicfilters.state._

/** Encodes the snapshot of a partition as an answer to a task (proto/exchange.proto), and decodes it. */
object SnapshotCodec {

  /** @param topKs by filter, if the filters are bounds
    */
  def encode(table: Long, snapshot: IndexedSeq[SnapshotFilter], topKs: IndexedSeq[TopKSpec]): SnapshotReply = {
    val reply = SnapshotReply.newBuilder().setTable(table)
    snapshot.indices.foreach(i => reply.addFilters(encode(snapshot(i), topKs.lift(i))))
    reply.build()
  }

  private def encode(f: SnapshotFilter, topK: Option[TopKSpec]): SnapshotFilterMessage = {
    val m = SnapshotFilterMessage.newBuilder()
    f match {
      case SnapshotFilter.Unknown =>
      case SnapshotFilter.Travelled => m.setTravelled(SnapshotTravelled.getDefaultInstance)
      case SnapshotFilter.Values(name) => m.setValues(SnapshotValues.newBuilder().setName(MessageCodec.name(name)))
      case SnapshotFilter.Bound(b) => m.setBound(MessageCodec.bound(topK.get.domain, b))
    }
    m.build()
  }

  /** Decodes the whole snapshot or fails, because every attempt must have the same.
    *
    * @param contents finds the contents of a named filter
    */
  def decode(
      reply: SnapshotReply,
      table: SnapshotsRef,
      contents: FilterName => Option[ValueFilter]
  ): Try[IndexedSeq[SnapshotFilter]] = Try {
    require(reply.getTable == table.id && reply.getFiltersCount == table.first.size, "the snapshot of another table")
    reply.getFiltersList.asScala.zipWithIndex.map { case (m, i) =>
      decode(m, table.topKs.lift(i), contents)
    }.toIndexedSeq
  }

  private def decode(
      m: SnapshotFilterMessage,
      topK: Option[TopKSpec],
      contents: FilterName => Option[ValueFilter]
  ): SnapshotFilter = m.getFormCase match {
    case FormCase.VALUES =>
      val name = MessageCodec.name(m.getValues.getName)
      SnapshotFilter.Values(name)(contents(name).get)
    case FormCase.TRAVELLED => SnapshotFilter.Travelled
    case FormCase.BOUND => SnapshotFilter.Bound(MessageCodec.bound(m.getBound, topK.get.domain))
    case _ => SnapshotFilter.Unknown
  }
}
