package org.dynamicfilters.scan

import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}

/** As [[SplitChooser]], for the parts of a DataSource V2 scan: what is known of them is certain. */
object SourceChooser {

  /** @param splits
    *   as the source has planned them
    * @param left
    *   how many parts no task reads
    */
  final case class Choice(splits: Seq[SourceSplit], left: Int)

  /** @param ready
    *   by column of the spec, the filters that are complete
    * @param keepsPartitions
    *   whether each of the source's splits stays a task of its own, with its parts in their order
    */
  def choose(
      splits: Seq[Seq[SourcePart]],
      spec: ScanSpec,
      ready: IndexedSeq[Option[ValueFilter]],
      keepsPartitions: Boolean,
      tasks: SplitChooser.Tasks
  ): Choice = {
    def weight(p: SourcePart) = p.bytes + tasks.openCost
    def pack(parts: Seq[SourcePart], limit: Long) = Packing.pack(parts, limit)(weight)
    def isExcluded(p: SourcePart) =
      spec.columns.indices.exists(i => ready(i).exists(!_.couldPass(p.bounds(i))))
    val kept = splits.map(_.filterNot(isExcluded))
    val parts = kept.flatten
    val left = splits.map(_.size).sum - parts.size
    val orders = spec.orders.filter { case (c, _) => parts.exists(_.bounds(c) != ColumnBounds.unknown) }
    val largest = splits.map(_.map(weight).sum).maxOption.getOrElse(0L)
    val packed =
      if (keepsPartitions) kept
      else if (orders.nonEmpty) pack(BestFirst.sort(parts, orders)(_.bounds(_)), largest)
      else if (left == 0) kept
      else pack(parts, math.min(largest, parts.map(weight).sum / math.max(tasks.atLeast, 1) + 1))
    Choice(packed.map(p => new SourceSplit(p.toIndexedSeq)), left)
  }
}
