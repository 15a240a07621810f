package org.dynamicfilters.exchange

import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import com.google.protobuf.UnsafeByteOperations
import org.dynamicfilters.filter.{KeyBytes, KeyCodec, KeyDomain, LongDomain, ObjectDomain, ValueFilter}
import org.dynamicfilters.proto._
import org.dynamicfilters.proto.SnapshotFilterMessage.FormCase
import org.dynamicfilters.state._

/** Makes and reads the messages between executors and the driver (proto/exchange.proto).
  *
  * The driver and its executors run the same jar, so a message of another version is refused whole, and the contents of
  * one of this version are trusted.
  */
object MessageCodec {

  /** The version written, and the only one read. Rises with every change of the schema. */
  val Version = 6

  /** Longer messages are neither sent nor read. */
  val MaxBytes: Int = 4 * 1024 * 1024

  /** Larger filters are not sent to running scans: the rest of their message needs room within [[MaxBytes]]. */
  val MostPushedBytes: Int = MaxBytes - 1024

  /** In place of Spark's SQL execution where there is none. */
  val NoExecution = -1L

  def execution(m: ExchangeMessage): Option[Long] = Option.when(m.getExecutionId != NoExecution)(m.getExecutionId)

  def contributions(executionId: Long, filter: FilterName, parts: Seq[TopKContribution]): ExchangeMessage =
    of(executionId)(
      _.setContributions(TopKContributions.newBuilder().setFilter(name(filter)).addAllParts(parts.asJava))
    )

  def subscribe(executionId: Long, filter: FilterName): ExchangeMessage =
    of(executionId)(_.setSubscription(Subscription.newBuilder().setFilter(name(filter))))

  def joined(executionId: Long): ExchangeMessage = of(executionId)(_.setJoined(ExecutionJoined.getDefaultInstance))

  def ended(executionId: Long): ExchangeMessage = of(executionId)(_.setEnded(ExecutionEndedMessage.getDefaultInstance))

  def bound(executionId: Long, filter: FilterName, domain: KeyDomain, b: TopKBound): ExchangeMessage =
    of(executionId)(_.setBound(bound(domain, b).setFilter(name(filter))))

  /** A bound in a message of its own or in a snapshot. */
  def bound(domain: KeyDomain, b: TopKBound): TopKBoundUpdate.Builder = {
    val update = TopKBoundUpdate.newBuilder().setGeneration(b.generation).setPartition(b.partition)
    if (b.key != null) update.setKey(KeyCodec.key(domain, b.key))
    update
  }

  def bound(m: TopKBoundUpdate, domain: KeyDomain): TopKBound =
    TopKBound(m.getGeneration, if (m.hasKey) KeyCodec.readKey(domain, m.getKey) else null, m.getPartition)

  def contents(executionId: Long, filter: FilterName, encoded: Array[Byte]): ExchangeMessage =
    of(executionId)(
      _.setJoinFilter(
        JoinFilterUpdate.newBuilder().setFilter(name(filter)).setEncoded(UnsafeByteOperations.unsafeWrap(encoded))
      )
    )

  def filterRequest(executionId: Long, table: Long, filter: FilterName): ExchangeMessage =
    of(executionId)(_.setFilterRequest(FilterRequest.newBuilder().setTable(table).setFilter(name(filter))))

  /** @param isFirst whether there was no attempt of the partition before */
  def snapshotRequest(executionId: Long, table: Long, partition: Int, isFirst: Boolean): ExchangeMessage =
    of(executionId)(
      _.setSnapshotRequest(SnapshotRequest.newBuilder().setTable(table).setPartition(partition).setIsFirst(isFirst))
    )

  /** The snapshot of a partition, as an answer to a task.
    *
    * @param topKs by filter, if the filters are bounds
    */
  def snapshot(
      executionId: Long,
      table: Long,
      snapshot: IndexedSeq[SnapshotFilter],
      topKs: IndexedSeq[TopKSpec]
  ): ExchangeMessage = {
    val reply = SnapshotReply.newBuilder().setTable(table)
    snapshot.indices.foreach(i => reply.addFilters(snapshotFilter(snapshot(i), topKs.lift(i))))
    of(executionId)(_.setSnapshotReply(reply))
  }

  private def snapshotFilter(f: SnapshotFilter, topK: Option[TopKSpec]): SnapshotFilterMessage.Builder = {
    val m = SnapshotFilterMessage.newBuilder()
    f match {
      case SnapshotFilter.Unknown => m
      case SnapshotFilter.Travelled => m.setTravelled(SnapshotTravelled.getDefaultInstance)
      case SnapshotFilter.Values(of) => m.setValues(SnapshotValues.newBuilder().setName(name(of)))
      case SnapshotFilter.Bound(b) => m.setBound(bound(topK.get.domain, b))
    }
  }

  /** Decodes the whole snapshot or fails, because every attempt must have the same.
    *
    * @param contents finds the contents of a named filter
    */
  def snapshot(
      reply: SnapshotReply,
      table: SnapshotsRef,
      contents: FilterName => Option[ValueFilter]
  ): Try[IndexedSeq[SnapshotFilter]] = Try {
    require(reply.getTable == table.id && reply.getFiltersCount == table.first.size, "the snapshot of another table")
    reply.getFiltersList.asScala.toIndexedSeq.zipWithIndex.map { case (m, i) =>
      m.getFormCase match {
        case FormCase.VALUES =>
          val of = name(m.getValues.getName)
          SnapshotFilter.Values(of)(contents(of).get)
        case FormCase.TRAVELLED => SnapshotFilter.Travelled
        case FormCase.BOUND => SnapshotFilter.Bound(bound(m.getBound, table.topKs(i).domain))
        case _ => SnapshotFilter.Unknown
      }
    }
  }

  private def of(executionId: Long)(set: ExchangeMessage.Builder => ExchangeMessage.Builder): ExchangeMessage =
    set(ExchangeMessage.newBuilder().setVersion(Version).setExecutionId(executionId)).build()

  /** Decodes a message that has arrived, and counts it; None if it is refused. */
  def received(bytes: Array[Byte], counters: ExchangeCounters): Option[ExchangeMessage] = {
    counters.add(ExchangeCounter.received)
    counters.add(ExchangeCounter.receivedBytes, bytes.length.toLong)
    val m = decode(bytes)
    m.left.foreach(counters.add(_))
    m.toOption
  }

  /** The message, or the counter of the reason why it is refused. Never throws. */
  def decode(bytes: Array[Byte], maxBytes: Int = MaxBytes): Either[ExchangeCounter.Value, ExchangeMessage] =
    if (bytes.length > maxBytes) Left(ExchangeCounter.refusedTooLong)
    else
      try
        Right(ExchangeMessage.parseFrom(bytes))
          .filterOrElse(_.getVersion == Version, ExchangeCounter.refusedOtherVersion)
      catch { case NonFatal(_) => Left(ExchangeCounter.refusedMalformed) }

  def name(f: FilterName): FilterNameMessage =
    FilterNameMessage.newBuilder().setFilterId(f.filterId).setRun(f.run).build()

  def name(f: FilterNameMessage): FilterName = FilterName(f.getFilterId, f.getRun)

  /** The message has the number of NULLs, which come first, and the other keys. */
  def contribution(spec: TopKSpec, c: Contribution): TopKContribution = {
    val b = TopKContribution.newBuilder().setPartition(c.partition).setAttempt(c.attempt)
    c.keys.foreach { k =>
      if (k == null) b.setNulls(b.getNulls + 1)
      else
        spec.domain match {
          case _: LongDomain => b.addNumbers(k.asInstanceOf[java.lang.Long])
          case d: ObjectDomain => b.addData(KeyCodec.bytes(d, k))
        }
    }
    b.build()
  }

  def contribution(spec: TopKSpec, m: TopKContribution): Contribution = {
    val keys: Iterable[AnyRef] = spec.domain match {
      case _: LongDomain => m.getNumbersList.asScala
      case d: ObjectDomain => m.getDataList.asScala.map(k => KeyBytes.key(d, k.toByteArray))
    }
    Contribution(m.getPartition, m.getAttempt, Array.fill[AnyRef](m.getNulls)(null) ++ keys)
  }
}
