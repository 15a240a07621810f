package org.dynamicfilters.filter

import org.dynamicfilters.proto.{FilterKey, StatisticsOfRowGroup}

/** Bounds of a column as part of a protobuf message, and back. Reading may throw on malformed input; callers catch that. */
object BoundsCodec {

  def write(domain: KeyDomain, bounds: ColumnBounds, to: StatisticsOfRowGroup.Builder): Unit = {
    if (bounds.min != null) to.setMin(KeyCodec.key(domain, bounds.min))
    if (bounds.max != null) to.setMax(KeyCodec.key(domain, bounds.max))
    to.setMayHaveNulls(bounds.mayHaveNulls).setMayHaveValues(bounds.mayHaveValues)
  }

  /** The bounds, or why they are none. A bound that is no key of the domain is not known: a writer may have cut a text within a
    * character.
    */
  def read(domain: KeyDomain, from: StatisticsOfRowGroup): Either[String, ColumnBounds] = {
    def key(present: Boolean, k: FilterKey): AnyRef =
      if (present) KeyCodec.readKey(domain, k).getOrElse(null) else null
    val (min, max) = (key(from.hasMin, from.getMin), key(from.hasMax, from.getMax))
    for {
      _ <- KeyCodec.known(from)
      _ <- Either.cond(min == null || max == null || domain.compare(min, max) <= 0, (), "a minimum above the maximum")
    } yield ColumnBounds(min, max, from.getMayHaveNulls, from.getMayHaveValues)
  }
}
