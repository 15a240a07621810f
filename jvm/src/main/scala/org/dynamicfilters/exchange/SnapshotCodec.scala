package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.dynamicfilters.filter.ValueFilter
import org.dynamicfilters.proto._
import org.dynamicfilters.state.{FilterName, Snapshot, SnapshotFilter, SnapshotsRef, TopKBound, TopKSpec}

/** [[Snapshot]]s as bytes (proto/exchange.proto), and back. Reading never throws. */
object SnapshotCodec {

  /** @param topKs
    *   by filter, for those that are bounds
    */
  def encode(snapshots: Seq[Snapshot], topKs: IndexedSeq[TopKSpec]): Array[Byte] = {
    val all = SnapshotContents.newBuilder()
    snapshots.foreach { s =>
      val one = SnapshotContent.newBuilder().setNumber(s.number)
      s.filters.indices.foreach(i => one.addFilters(message(s.filters(i), topKs.lift(i))))
      all.addSnapshots(one)
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

  /** The filters by number, with those that travelled as number 0, or why there are none: all or nothing, because every attempt
    * must have the same.
    *
    * @param contents
    *   finds what a name stands for
    */
  def decode(
      bytes: Array[Byte],
      table: SnapshotsRef,
      contents: FilterName => Option[ValueFilter]
  ): Either[String, Map[Int, IndexedSeq[SnapshotFilter]]] =
    try {
      val all = SnapshotContents.parseFrom(bytes).getSnapshotsList.asScala.map { s =>
        s.getNumber -> read(s, table, contents)
      }
      all
        .collectFirst { case (_, Left(why)) => why }
        .toLeft(all.collect { case (n, Right(filters)) => n -> filters }.toMap + (0 -> table.first))
    } catch { case NonFatal(e) => Left(s"not snapshots: $e") }

  private def read(
      content: SnapshotContent,
      table: SnapshotsRef,
      contents: FilterName => Option[ValueFilter]
  ): Either[String, IndexedSeq[SnapshotFilter]] = {
    val read = content.getFiltersList.asScala.zipWithIndex.map { case (m, i) =>
      m.getFormCase match {
        case SnapshotFilterMessage.FormCase.VALUES =>
          val name = MessageCodec.name(m.getValues.getName)
          contents(name).toRight(s"no contents of $name").map(SnapshotFilter.Values(name, m.getValues.getTested)(_))
        case SnapshotFilterMessage.FormCase.TRAVELLED =>
          Right(SnapshotFilter.Travelled(m.getTravelled.getTested))
        case SnapshotFilterMessage.FormCase.BOUND =>
          table.topKs.lift(i).toRight("a bound of no TopK").flatMap(bound(m.getBound, _))
        case _ => Right(SnapshotFilter.Unknown)
      }
    }.toIndexedSeq
    read.collectFirst { case Left(why) => why } match {
      case Some(why) => Left(why)
      case None =>
        Either.cond(read.size == table.first.size, read.collect { case Right(f) => f }, "a snapshot of another size")
    }
  }

  private def bound(b: SnapshotBound, spec: TopKSpec): Either[String, SnapshotFilter] = {
    val key = MessageCodec.readKey(b.getKey) match {
      case Some(k) => WireKey.read(spec.domain, k)
      case None =>
        Either.cond(b.getGeneration == 0 || spec.nullsFirst, null, "a bound of NULL where nulls are not counted")
    }
    key.map(k => SnapshotFilter.Bound(TopKBound(b.getGeneration, k, b.getPartition)))
  }
}
