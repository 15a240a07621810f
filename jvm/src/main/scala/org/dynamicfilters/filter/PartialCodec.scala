package org.dynamicfilters.filter

import org.dynamicfilters.proto._

/** Encodes [[KeyPartial]]s as bytes (proto/filters.proto), and decodes them under the rules of [[FilterCodec]]. */
private[filter] object PartialCodec {
  import KeyCodec._
  import KeyPartial._

  /** As [[FilterCodec.version]]. */
  val version: Int = 4

  def encode(p: KeyPartial): Array[Byte] = {
    val m = PartialMessage
      .newBuilder()
      .setVersion(version)
      .setDataType(p.domain.dataType.json)
      .setRows(p.rows)
      .setNulls(p.hasNulls)
    if (p.hasValues) m.setMin(key(p.domain, p.min)).setMax(key(p.domain, p.max))
    p.keys match {
      case Distinct(set) => m.setKeys(keySet(set))
      case Hashes(codes) => m.setHashes(keySet(codes))
      case Outgrown(limit) => m.setOutgrown(OutgrownKeys.newBuilder().setLimit(limit))
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

  private def keys(domain: KeyDomain, m: PartialMessage): Either[String, Keys] = (m.getFoundCase, domain) match {
    case (PartialMessage.FoundCase.KEYS, _) => readKeySet(domain, m.getKeys).map(Distinct(_))
    case (PartialMessage.FoundCase.HASHES, _: ObjectDomain) =>
      readKeySet(Bloom.hashes, m.getHashes).flatMap {
        case codes: LongSet => Right(Hashes(codes))
        case _ => Left("hashes that are no set of numbers")
      }
    case (PartialMessage.FoundCase.OUTGROWN, _) =>
      known(m.getOutgrown).map(_ => Outgrown(m.getOutgrown.getLimit))
    case _ => Left(s"keys of the wrong kind for type ${domain.dataType.catalogString}")
  }

  /** Whether bounds and keys agree. Finds most damage that the keys' own checks do not find. */
  private def agree(d: KeyDomain, min: AnyRef, max: AnyRef, keys: Keys): Boolean = keys match {
    case Distinct(set) if set.size == 0 => min == null
    case Hashes(codes) if codes.size == 0 => min == null
    case _ if min == null || d.compare(min, max) > 0 => false
    case Distinct(set: LongSet) => min == Long.box(set.least) && max == Long.box(set.greatest)
    case Distinct(set: ObjectValues) => d.compare(min, set.sorted.head) == 0 && d.compare(max, set.sorted.last) == 0
    case Distinct(_: Bloom) => false
    case Hashes(_) | Outgrown(_) => true
  }
}
