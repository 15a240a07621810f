package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.google.protobuf.ByteString
import org.dynamicfilters.filter.FilterCodec
import org.dynamicfilters.proto.{FilterKey, SnapshotBound, SnapshotContent, SnapshotFilterMessage, SnapshotValues}

/** The filters of a [[Snapshot]] as bytes (proto/exchange.proto), and back. Reading never throws. */
object SnapshotCodec {

  /** @param topKs
    *   by filter, for those that are bounds
    */
  def encode(filters: IndexedSeq[SnapshotFilter], topKs: IndexedSeq[TopKSpec]): Array[Byte] = {
    val all = SnapshotContent.newBuilder()
    filters.indices.foreach { i =>
      val one = SnapshotFilterMessage.newBuilder()
      filters(i) match {
        case SnapshotFilter.Unknown =>
        case SnapshotFilter.Values(f, tested) =>
          one.setValues(
            SnapshotValues.newBuilder().setEncoded(ByteString.copyFrom(FilterCodec.encode(f))).setTested(tested)
          )
        case SnapshotFilter.Bound(b) =>
          val bound = SnapshotBound.newBuilder().setGeneration(b.generation).setPartition(b.partition)
          Option(b.key).map(WireKey.of(topKs(i).domain, _)).foreach {
            case WireKey.Number(n) => bound.setKey(FilterKey.newBuilder().setNumber(n))
            case WireKey.Data(d) => bound.setKey(FilterKey.newBuilder().setData(ByteString.copyFrom(d)))
          }
          one.setBound(bound)
      }
      all.addFilters(one)
    }
    all.build().toByteArray
  }

  /** The filters, or why there are none: all or nothing, because every attempt must have the same.
    *
    * @param size
    *   how many there are
    */
  def decode(
      bytes: Array[Byte],
      size: Int,
      topKs: IndexedSeq[TopKSpec]
  ): Either[String, IndexedSeq[SnapshotFilter]] =
    try {
      val read = SnapshotContent
        .parseFrom(bytes)
        .getFiltersList
        .asScala
        .zipWithIndex
        .map { case (m, i) =>
          m.getFormCase match {
            case SnapshotFilterMessage.FormCase.VALUES =>
              FilterCodec
                .decode(m.getValues.getEncoded.toByteArray)
                .map(SnapshotFilter.Values(_, m.getValues.getTested))
            case SnapshotFilterMessage.FormCase.BOUND =>
              topKs.lift(i).toRight("a bound of no TopK").flatMap(bound(m.getBound, _))
            case _ => Right(SnapshotFilter.Unknown)
          }
        }
        .toIndexedSeq
      read.collectFirst { case Left(why) => why } match {
        case Some(why) => Left(why)
        case None => Either.cond(read.size == size, read.collect { case Right(f) => f }, "a snapshot of another size")
      }
    } catch { case NonFatal(e) => Left(s"not a snapshot: $e") }

  private def bound(b: SnapshotBound, spec: TopKSpec): Either[String, SnapshotFilter] = {
    val key = b.getKey.getKeyCase match {
      case FilterKey.KeyCase.NUMBER => WireKey.read(spec.domain, WireKey.Number(b.getKey.getNumber))
      case FilterKey.KeyCase.DATA => WireKey.read(spec.domain, WireKey.Data(b.getKey.getData.toByteArray))
      case _ =>
        Either.cond(b.getGeneration == 0 || spec.nullsFirst, null, "a bound of NULL where nulls are not counted")
    }
    key.map(k => SnapshotFilter.Bound(TopKBound(b.getGeneration, k, b.getPartition)))
  }
}
