package org.dynamicfilters.filter

import org.dynamicfilters.proto._

/** Encodes [[KeyPartial]]s as bytes (proto/filters.proto), and decodes them under the rules of [[FilterCodec]]. */
private[filter] object PartialCodec {
  import KeyCodec._
  import KeyPartial._

  /** As [[FilterCodec.version]]. */
  val version: Int = 6

  def encode(p: KeyPartial): Array[Byte] = {
    val m = PartialMessage.newBuilder().setVersion(version).setDataType(p.domain.dataType.json).setNulls(p.hasNulls)
    if (p.hasValues) m.setMin(key(p.domain, p.min)).setMax(key(p.domain, p.max))
    p.keys match {
      case Distinct(set) => m.setKeys(keySet(set))
      case Hashes(codes) => m.setHashes(keySet(codes))
      case Outgrown(limit, areIntervals) =>
        m.setOutgrown(OutgrownKeys.newBuilder().setLimit(limit).setAreIntervals(areIntervals))
    }
    m.build().toByteArray
  }

  def decode(b: Array[Byte]): Either[String, KeyPartial] =
    FilterCodec.reading("partial") {
      val m = PartialMessage.parseFrom(b)
      FilterCodec.sameVersion("partial", m.getVersion, version).map { _ =>
        val d = readDomain(m.getDataType)
        def end(present: Boolean, k: FilterKey) = if (present) readKey(d, k) else null
        KeyPartial(d, m.getNulls, end(m.hasMin, m.getMin), end(m.hasMax, m.getMax), keys(d, m))
      }
    }

  private def keys(domain: KeyDomain, m: PartialMessage): Keys = m.getFoundCase match {
    case PartialMessage.FoundCase.KEYS => Distinct(readKeySet(domain, m.getKeys))
    case PartialMessage.FoundCase.HASHES => Hashes(readKeySet(Bloom.hashes, m.getHashes).asInstanceOf[LongSet])
    case PartialMessage.FoundCase.OUTGROWN => Outgrown(m.getOutgrown.getLimit, m.getOutgrown.getAreIntervals)
    case other => throw new IllegalArgumentException(s"no keys: $other")
  }
}
