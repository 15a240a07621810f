package org.dynamicfilters.operators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection}
import org.dynamicfilters.filter.{KeyCollector, KeyDomain, KeyLimits, KeyPartial, LongDomain}
import org.dynamicfilters.state.{KeyContribution, ResultItems}

/** One filter of a [[BuildKeyTapExec]] in the form that its tasks get. */
private[operators] final case class KeyTapPart(
    domain: KeyDomain,
    key: Expression,
    limits: KeyLimits,
    partitions: Int,
    accumulator: ResultItems[KeyContribution]
)

/** Collects one key in one task, and reports its values at the task's end. */
private[operators] final class KeyCollection(part: KeyTapPart) {
  import part._

  private val collector = (key, domain) match {
    case (r: RangeKey, d: LongDomain) => KeyCollector.ofIntervals(d, r.operators, limits)
    case _ => KeyCollector(domain, limits, partitions)
  }

  // The position of the key's column; or for other keys 0, and a projection that computes them.
  private val (ordinal, projection) = key match {
    case b: BoundReference => (b.ordinal, null)
    case r: RangeKey => (0, UnsafeProjection.create(r.children))
    case computed => (0, UnsafeProjection.create(Seq(computed)))
  }

  def add(row: InternalRow): Unit =
    if (projection == null) collector.add(row, ordinal) else collector.add(projection(row), ordinal)

  def finish(partition: Int): KeyContribution = {
    val partial = collector.result()
    val encoded = partial.encode
    val contribution =
      if (encoded.length > limits.mostSent(partitions)) KeyContribution(partition, KeyPartial.tooLarge, outgrown = true)
      else KeyContribution(partition, encoded, partial.outgrown)
    accumulator.add(contribution)
    contribution
  }
}
