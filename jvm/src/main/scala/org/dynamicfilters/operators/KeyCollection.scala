package org.dynamicfilters.operators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection}
import org.dynamicfilters.filter.{KeyCollector, KeyCost, KeyLimits, KeyPartial, TupleCollector, TuplePart}
import org.dynamicfilters.state.{KeyContribution, ResultItems}

/** One filter of a [[BuildKeyTapExec]] in the form that its tasks get. */
private[operators] final class KeyTapPart(
    parts: IndexedSeq[TuplePart],
    keys: Seq[Expression],
    limits: KeyLimits,
    partitions: Int,
    accumulator: ResultItems[KeyContribution]
) extends Serializable {
  def start(): KeyCollection = {
    val most = limits.mostSent(partitions)
    if (parts.size == 1) new SingleKeys(KeyCollector(parts.head.domain, limits, partitions), keys, most, accumulator)
    else new Tuples(new TupleCollector(parts, limits, partitions), keys, most, accumulator)
  }
}

/** Collects one key, or tuples of several, in one task, and reports them at its end. */
private[operators] sealed abstract class KeyCollection(
    keys: Seq[Expression],
    mostBytes: Long,
    accumulator: ResultItems[KeyContribution]
) {
  private val columns = keys.collect { case b: BoundReference => b.ordinal }
  private val projection = if (columns.size == keys.size) null else UnsafeProjection.create(keys)
  protected final val ordinals: Array[Int] = (if (projection == null) columns else keys.indices).toArray

  private val cost = new KeyCost
  private var isGivenUp = false

  final def add(row: InternalRow): Unit =
    if (projection == null) collect(row)
    else if (!isGivenUp) {
      if (cost.measuresNext) {
        val from = System.nanoTime()
        val computed = projection(row)
        cost.took(System.nanoTime() - from)
        isGivenUp = cost.isTooMuch
        collect(computed)
      } else {
        cost.skipped()
        collect(projection(row))
      }
    }

  protected def collect(row: InternalRow): Unit
  protected def result(): KeyPartial

  final def finish(partition: Int): KeyContribution = {
    val contribution =
      if (isGivenUp) KeyContribution(partition, KeyPartial.givenUp, outgrown = true)
      else {
        val partial = result()
        val encoded = partial.encode
        if (encoded.length > mostBytes) KeyContribution(partition, KeyPartial.tooLarge, outgrown = true)
        else KeyContribution(partition, encoded, partial.outgrown)
      }
    accumulator.add(contribution)
    contribution
  }
}

private final class SingleKeys(
    collector: KeyCollector,
    keys: Seq[Expression],
    mostBytes: Long,
    accumulator: ResultItems[KeyContribution]
) extends KeyCollection(keys, mostBytes, accumulator) {
  private val ordinal = ordinals.head
  override protected def collect(row: InternalRow): Unit = collector.add(row, ordinal)
  override protected def result(): KeyPartial = collector.result()
}

private final class Tuples(
    collector: TupleCollector,
    keys: Seq[Expression],
    mostBytes: Long,
    accumulator: ResultItems[KeyContribution]
) extends KeyCollection(keys, mostBytes, accumulator) {
  override protected def collect(row: InternalRow): Unit = collector.add(row, ordinals)
  override protected def result(): KeyPartial = collector.result()
}
