package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.google.protobuf.ByteString
import org.dynamicfilters.proto._
import org.dynamicfilters.proto.ExchangeMessage.BodyCase
import org.dynamicfilters.state.{FilterName, ReadPlace}

/** Encodes [[Message]]s as bytes (proto/exchange.proto), and decodes them. */
object MessageCodec {

  /** The version written, and the only one read. Rises with every change of the schema. */
  val Version = 4

  /** Longer messages are neither sent nor read. Larger filters go as Spark broadcasts. */
  val MaxBytes: Int = 4 * 1024 * 1024

  def encode(m: Message): Array[Byte] = {
    val b = ExchangeMessage.newBuilder().setVersion(Version).setExecutionId(m.executionId)
    m match {
      case Message.Contributions(_, filter, parts) =>
        val all = TopKContributions.newBuilder().setFilter(encodeName(filter))
        parts.foreach(p => all.addParts(encodeContribution(p)))
        b.setContributions(all)
      case Message.Subscribe(_, filter) => b.setSubscription(Subscription.newBuilder().setFilter(encodeName(filter)))
      case Message.Bound(_, filter, generation, key, partition) =>
        val bound =
          TopKBoundUpdate.newBuilder().setFilter(encodeName(filter)).setGeneration(generation).setPartition(partition)
        key.foreach(k => bound.setKey(encodeKey(k)))
        b.setBound(bound)
      case Message.FilterContents(_, filter, encoded) =>
        val update = JoinFilterUpdate.newBuilder().setFilter(encodeName(filter))
        encoded.foreach(e => update.setEncoded(ByteString.copyFrom(e)))
        b.setJoinFilter(update)
      case Message.Joined(_) => b.setJoined(ExecutionJoined.getDefaultInstance)
      case Message.Ended(_) => b.setEnded(ExecutionEndedMessage.getDefaultInstance)
      case Message.SnapshotRequest(_, table, partition, attempt, isFirst, newFrom) =>
        val request = SnapshotRequest.newBuilder().setTable(table).setPartition(partition).setAttempt(attempt)
        request.setIsFirst(isFirst)
        newFrom.foreach(p => request.setPlace(encodePlace(p)))
        b.setSnapshotRequest(request)
      case Message.FilterRequest(_, table, filter) =>
        b.setFilterRequest(FilterRequest.newBuilder().setTable(table).setFilter(encodeName(filter)))
      case Message.SnapshotReply(_, table, schedule) =>
        b.setSnapshotReply(SnapshotReply.newBuilder().setTable(table).setSchedule(ByteString.copyFrom(schedule)))
    }
    b.build().toByteArray
  }

  /** Decodes a message that has arrived, and counts it; None if it is refused. */
  def received(bytes: Array[Byte], counters: ExchangeCounters): Option[Message] = {
    counters.add(ExchangeCounter.received)
    counters.add(ExchangeCounter.receivedBytes, bytes.length.toLong)
    val m = decode(bytes)
    m.left.foreach(counters.refused)
    m.toOption
  }

  /** The message, or why it is refused. Never throws. */
  def decode(bytes: Array[Byte], maxBytes: Int = MaxBytes): Either[Refusal, Message] =
    if (bytes.length > maxBytes) Left(Refusal.TooLong)
    else
      try {
        val m = ExchangeMessage.parseFrom(bytes)
        if (m.getVersion != Version) Left(Refusal.OtherVersion)
        else if (!m.getUnknownFields.asMap.isEmpty) Left(Refusal.Malformed)
        else decode(m).toRight(Refusal.Malformed)
      } catch {
        case NonFatal(_) => Left(Refusal.Malformed)
      }

  private def decode(m: ExchangeMessage): Option[Message] = {
    val id = m.getExecutionId
    m.getBodyCase match {
      case BodyCase.CONTRIBUTIONS =>
        val parts = m.getContributions.getPartsList.asScala.toSeq
        Option.when(parts.forall(p => p.getNumbersCount == 0 || p.getDataCount == 0)) {
          Message.Contributions(id, decodeName(m.getContributions.getFilter), parts.map(decodeContribution))
        }
      case BodyCase.SUBSCRIPTION => Some(Message.Subscribe(id, decodeName(m.getSubscription.getFilter)))
      case BodyCase.JOINED => Some(Message.Joined(id))
      case BodyCase.BOUND =>
        val b = m.getBound
        val key = Option.when(b.hasKey)(decodeKey(b.getKey))
        Option.when(b.getGeneration > 0 && !key.contains(None)) {
          Message.Bound(id, decodeName(b.getFilter), b.getGeneration, key.flatten, b.getPartition)
        }
      case BodyCase.JOIN_FILTER =>
        val f = m.getJoinFilter
        val encoded = Option.unless(f.getEncoded.isEmpty)(f.getEncoded.toByteArray)
        Some(Message.FilterContents(id, decodeName(f.getFilter), encoded))
      case BodyCase.ENDED => Some(Message.Ended(id))
      case BodyCase.SNAPSHOT_REQUEST =>
        val r = m.getSnapshotRequest
        val newFrom = Option.when(r.hasPlace)(decodePlace(r.getPlace))
        Some(Message.SnapshotRequest(id, r.getTable, r.getPartition, r.getAttempt, r.getIsFirst, newFrom))
      case BodyCase.SNAPSHOT_REPLY =>
        val r = m.getSnapshotReply
        Some(Message.SnapshotReply(id, r.getTable, r.getSchedule.toByteArray))
      case BodyCase.FILTER_REQUEST =>
        val r = m.getFilterRequest
        Some(Message.FilterRequest(id, r.getTable, decodeName(r.getFilter)))
      case _ => None
    }
  }

  private[exchange] def encodePlace(p: ReadPlace): ReadPlaceMessage =
    ReadPlaceMessage.newBuilder().setFile(p.file).setOffset(p.offset).build()

  private[exchange] def decodePlace(p: ReadPlaceMessage): ReadPlace = ReadPlace(p.getFile, p.getOffset)

  private[exchange] def encodeKey(k: WireKey): FilterKey = k match {
    case WireKey.Number(n) => FilterKey.newBuilder().setNumber(n).build()
    case WireKey.Data(d) => FilterKey.newBuilder().setData(ByteString.copyFrom(d)).build()
  }

  /** None if the key has no value. */
  private[exchange] def decodeKey(k: FilterKey): Option[WireKey] = k.getKeyCase match {
    case FilterKey.KeyCase.NUMBER => Some(WireKey.Number(k.getNumber))
    case FilterKey.KeyCase.DATA => Some(WireKey.Data(k.getData.toByteArray))
    case _ => None
  }

  private def encodeContribution(c: WireContribution): TopKContribution = {
    val b =
      TopKContribution.newBuilder().setPartition(c.partition).setAttempt(c.attempt).setNulls(c.nulls)
    c.keys.foreach {
      case WireKey.Number(n) => b.addNumbers(n)
      case WireKey.Data(d) => b.addData(ByteString.copyFrom(d))
    }
    b.build()
  }

  private def decodeContribution(c: TopKContribution): WireContribution = {
    val numbers = c.getNumbersList.asScala.map(n => WireKey.Number(n))
    val data = c.getDataList.asScala.map(d => WireKey.Data(d.toByteArray))
    WireContribution(c.getPartition, c.getAttempt, c.getNulls, (numbers ++ data).toSeq)
  }

  private[exchange] def encodeName(f: FilterName): FilterNameMessage =
    FilterNameMessage.newBuilder().setFilterId(f.filterId).setRun(f.run).build()

  private[exchange] def decodeName(f: FilterNameMessage): FilterName = FilterName(f.getFilterId, f.getRun)

  /** Why a receiver refuses bytes. */
  sealed trait Refusal
  object Refusal {
    case object TooLong extends Refusal
    case object OtherVersion extends Refusal
    case object Malformed extends Refusal
  }
}
