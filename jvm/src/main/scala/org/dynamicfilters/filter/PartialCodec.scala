package org.dynamicfilters.filter

import com.google.protobuf.UnsafeByteOperations

import org.dynamicfilters.proto._

/** What partitions say of their keys as bytes (proto/filters.proto), and back; as [[FilterCodec]]. */
private[filter] object PartialCodec {
  import KeyCodec._
  import KeyPartial._

  /** As [[FilterCodec.version]]. */
  val version: Int = 3

  def encode(p: KeyPartial): Array[Byte] = {
    val m = PartialMessage
      .newBuilder()
      .setVersion(version)
      .setDataType(p.domain.dataType.json)
      .setRows(p.rows)
      .setNulls(p.hasNulls)
    if (p.hasValues) m.setMin(key(p.domain, p.min)).setMax(key(p.domain, p.max))
    (p.keys, p.domain) match {
      case (Longs(run), _) => m.setValues(run.encode)
      case (Bits(set), _) => m.setBitmap(UnsafeByteOperations.unsafeWrap(set.encode))
      case (Objects(xs), d: ObjectDomain) => m.setObjects(objects(d, xs))
      case (Objects(_), d) =>
        throw new IllegalArgumentException(s"keys of ${d.dataType.catalogString} that are objects")
      case (Hashes(run), _) => m.setHashes(run.encode)
      case (Outgrown(limit), _) => m.setOutgrown(OutgrownKeys.newBuilder().setLimit(limit))
    }
    m.build().toByteArray
  }

  def decode(b: Array[Byte]): Either[String, KeyPartial] =
    FilterCodec.reading("partial") {
      val m = PartialMessage.parseFrom(b)
      for {
        _ <- FilterCodec.sameVersion("partial", m.getVersion, version)
        _ <- known(m)
        d <- readDomain(m.getDataType)
        _ <- Either.cond(m.hasMin == m.hasMax, (), "partial message with one end")
        min <- if (m.hasMin) readKey(d, m.getMin) else Right(null)
        max <- if (m.hasMax) readKey(d, m.getMax) else Right(null)
        keys <- keys(d, m)
        _ <- Either.cond(agree(d, min, max, keys), (), "partial message whose ends are not those of its keys")
      } yield KeyPartial(d, m.getRows, m.getNulls, min, max, keys)
    }

  private def keys(domain: KeyDomain, m: PartialMessage): Either[String, Keys] = (m.getKeysCase, domain) match {
    case (PartialMessage.KeysCase.VALUES, d: LongDomain) => readRun(d, m.getValues).map(Longs(_))
    case (PartialMessage.KeysCase.BITMAP, d: LongDomain) =>
      LongBitmap.decode(d, m.getBitmap.toByteArray).map(b => Bits(b.bits))
    case (PartialMessage.KeysCase.OBJECTS, d: ObjectDomain) => readObjects(d, m.getObjects).map(Objects)
    case (PartialMessage.KeysCase.HASHES, _: ObjectDomain) => LongRun.decode(m.getHashes).map(Hashes(_))
    case (PartialMessage.KeysCase.OUTGROWN, _) =>
      known(m.getOutgrown).map(_ => Outgrown(m.getOutgrown.getLimit))
    case _ => Left(s"keys of the wrong kind for type ${domain.dataType.catalogString}")
  }

  /** A partial whose parts belong to each other: damage elsewhere than in the keys themselves mostly shows here. */
  private def agree(d: KeyDomain, min: AnyRef, max: AnyRef, keys: Keys): Boolean = keys match {
    case Longs(run) if run.isEmpty => min == null
    case Hashes(run) if run.isEmpty => min == null
    case Objects(Array()) => min == null
    case _ if min == null || d.compare(min, max) > 0 => false
    case Longs(run) => min == Long.box(run.least) && max == Long.box(run.greatest)
    case Bits(set) => min == Long.box(set.least) && max == Long.box(set.greatest)
    case Objects(xs) => d.compare(min, xs.head) == 0 && d.compare(max, xs.last) == 0
    case Hashes(_) | Outgrown(_) => true
  }
}
