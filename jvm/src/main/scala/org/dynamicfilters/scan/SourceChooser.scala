package org.dynamicfilters.scan

/** As [[SplitChooser]], for the parts of a DataSource V2 scan: what is known of them is certain. */
object SourceChooser {

  /** @param splits
    *   as the source has planned them
    * @param left
    *   how many parts no task reads
    */
  final case class Choice(splits: Seq[SourceSplit], left: Int)

  /** @param pruner
    *   has the filters that are complete
    * @param keepsPartitions
    *   whether each of the source's splits stays a task of its own, with its parts in their order
    */
  def choose(
      splits: Seq[Seq[SourcePart]],
      spec: ScanSpec,
      pruner: Pruner,
      keepsPartitions: Boolean,
      tasks: SplitChooser.Tasks
  ): Choice = {
    val kept = splits.map(_.filterNot(p => pruner.excludes(p.bounds)))
    val parts = kept.flatten
    val dealt =
      if (keepsPartitions) kept
      else Packing.deal(splits, parts, spec.orders, tasks)(_.bytes + tasks.openCost, _.bounds(_))
    Choice(dealt.map(p => new SourceSplit(p.toIndexedSeq)), splits.map(_.size).sum - parts.size)
  }
}
