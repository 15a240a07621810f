package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.google.protobuf.ByteString
import org.dynamicfilters.proto._
import org.dynamicfilters.state.{FilterName, ReadPlace}

/** [[Message]]s as bytes (proto/exchange.proto), and back. Reading never throws. */
object MessageCodec {

  /** The version written, and the only one read. Rises with every change of the schema. */
  val Version = 4

  /** What is longer is neither sent nor read: larger filters go as Spark broadcasts. */
  val MaxBytes: Int = 4 * 1024 * 1024

  def encode(m: Message): Array[Byte] = {
    val b = ExchangeMessage.newBuilder().setVersion(Version).setExecutionId(m.executionId)
    m match {
      case Message.Contributions(_, filter, parts) =>
        val all = TopKContributions.newBuilder().setFilter(nameMessage(filter))
        parts.foreach(p => all.addParts(contribution(p)))
        b.setContributions(all)
      case Message.Subscribe(_, filter) => b.setSubscription(Subscription.newBuilder().setFilter(nameMessage(filter)))
      case Message.Bound(_, filter, generation, key, partition) =>
        val bound =
          TopKBoundUpdate.newBuilder().setFilter(nameMessage(filter)).setGeneration(generation).setPartition(partition)
        key.foreach(k => bound.setKey(keyMessage(k)))
        b.setBound(bound)
      case Message.JoinFilter(_, filter, encoded) =>
        val update = JoinFilterUpdate.newBuilder().setFilter(nameMessage(filter))
        encoded.foreach(e => update.setEncoded(ByteString.copyFrom(e)))
        b.setJoinFilter(update)
      case Message.Joined(_) => b.setJoined(ExecutionJoined.getDefaultInstance)
      case Message.Ended(_) => b.setEnded(ExecutionEndedMessage.getDefaultInstance)
      case Message.SnapshotRequest(_, table, partition, attempt, isFirst, newFrom) =>
        val request = SnapshotRequest.newBuilder().setTable(table).setPartition(partition).setAttempt(attempt)
        request.setIsFirst(isFirst)
        newFrom.foreach(p => request.setPlace(placeMessage(p)))
        b.setSnapshotRequest(request)
      case Message.FilterRequest(_, table, filter) =>
        b.setFilterRequest(FilterRequest.newBuilder().setTable(table).setFilter(nameMessage(filter)))
      case Message.SnapshotReply(_, table, schedule) =>
        b.setSnapshotReply(SnapshotReply.newBuilder().setTable(table).setSchedule(ByteString.copyFrom(schedule)))
    }
    b.build().toByteArray
  }

  /** The message in these bytes, or what became of them instead. */
  def decode(bytes: Array[Byte], mostBytes: Int = MaxBytes): Either[Refusal, Message] =
    if (bytes.length > mostBytes) Left(Refusal.TooLong)
    else
      try {
        val m = ExchangeMessage.parseFrom(bytes)
        if (m.getVersion != Version) Left(Refusal.OtherVersion)
        else if (!m.getUnknownFields.asMap.isEmpty) Left(Refusal.Malformed)
        else read(m).toRight(Refusal.Malformed)
      } catch {
        case NonFatal(_) => Left(Refusal.Malformed)
      }

  private def read(m: ExchangeMessage): Option[Message] = {
    val id = m.getExecutionId
    m.getBodyCase match {
      case ExchangeMessage.BodyCase.CONTRIBUTIONS =>
        val parts = m.getContributions.getPartsList.asScala.map { p =>
          if (p.getNumbersCount > 0 && p.getDataCount > 0) None
          else {
            val numbers = p.getNumbersList.asScala.map(n => WireKey.Number(n))
            val data = p.getDataList.asScala.map(d => WireKey.Data(d.toByteArray))
            Some(WireContribution(p.getPartition, p.getAttempt, p.getNulls, (numbers ++ data).toSeq))
          }
        }
        if (parts.contains(None)) None
        else Some(Message.Contributions(id, name(m.getContributions.getFilter), parts.flatten.toSeq))
      case ExchangeMessage.BodyCase.SUBSCRIPTION =>
        Some(Message.Subscribe(id, name(m.getSubscription.getFilter)))
      case ExchangeMessage.BodyCase.JOINED => Some(Message.Joined(id))
      case ExchangeMessage.BodyCase.BOUND =>
        val b = m.getBound
        val key = if (b.hasKey) readKey(b.getKey).map(Some(_)) else Some(None)
        key
          .filter(_ => b.getGeneration > 0)
          .map(Message.Bound(id, name(b.getFilter), b.getGeneration, _, b.getPartition))
      case ExchangeMessage.BodyCase.JOIN_FILTER =>
        val f = m.getJoinFilter
        val encoded = if (f.getEncoded.isEmpty) None else Some(f.getEncoded.toByteArray)
        Some(Message.JoinFilter(id, name(f.getFilter), encoded))
      case ExchangeMessage.BodyCase.ENDED => Some(Message.Ended(id))
      case ExchangeMessage.BodyCase.SNAPSHOT_REQUEST =>
        val r = m.getSnapshotRequest
        Some(
          Message.SnapshotRequest(
            id,
            r.getTable,
            r.getPartition,
            r.getAttempt,
            r.getIsFirst,
            Option.when(r.hasPlace)(place(r.getPlace))
          )
        )
      case ExchangeMessage.BodyCase.SNAPSHOT_REPLY =>
        val r = m.getSnapshotReply
        Some(Message.SnapshotReply(id, r.getTable, r.getSchedule.toByteArray))
      case ExchangeMessage.BodyCase.FILTER_REQUEST =>
        val r = m.getFilterRequest
        Some(Message.FilterRequest(id, r.getTable, name(r.getFilter)))
      case _ => None
    }
  }

  private[exchange] def placeMessage(p: ReadPlace): ReadPlaceMessage =
    ReadPlaceMessage.newBuilder().setFile(p.file).setOffset(p.offset).build()

  private[exchange] def place(p: ReadPlaceMessage): ReadPlace = ReadPlace(p.getFile, p.getOffset)

  private[exchange] def keyMessage(k: WireKey): FilterKey = k match {
    case WireKey.Number(n) => FilterKey.newBuilder().setNumber(n).build()
    case WireKey.Data(d) => FilterKey.newBuilder().setData(ByteString.copyFrom(d)).build()
  }

  private[exchange] def readKey(k: FilterKey): Option[WireKey] = k.getKeyCase match {
    case FilterKey.KeyCase.NUMBER => Some(WireKey.Number(k.getNumber))
    case FilterKey.KeyCase.DATA => Some(WireKey.Data(k.getData.toByteArray))
    case _ => None
  }

  private def contribution(c: WireContribution): TopKContribution = {
    val b =
      TopKContribution.newBuilder().setPartition(c.partition).setAttempt(c.attempt).setNulls(c.nulls)
    c.keys.foreach {
      case WireKey.Number(n) => b.addNumbers(n)
      case WireKey.Data(d) => b.addData(ByteString.copyFrom(d))
    }
    b.build()
  }

  private[exchange] def nameMessage(f: FilterName): FilterNameMessage =
    FilterNameMessage.newBuilder().setFilterId(f.filterId).setRun(f.run).build()

  private[exchange] def name(f: FilterNameMessage): FilterName = FilterName(f.getFilterId, f.getRun)

  /** Why bytes are no message that this side understands. */
  sealed trait Refusal
  object Refusal {
    case object TooLong extends Refusal
    case object OtherVersion extends Refusal
    case object Malformed extends Refusal
  }
}
