package org.dynamicfilters.scan

import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.dynamicfilters.filter.ColumnBounds

/** Chooses the splits of a file scan and their order. Called by `DynamicFilterScanExec` on the driver before the scan
  * starts.
  *
  * Splits that a complete filter excludes get no task. Partition values and the table's log exclude at once, learned
  * statistics only after the file system has confirmed that the file is unchanged. Under a TopK the best splits come
  * first.
  */
object SplitChooser {

  /** @param splits
    *   the splits to read, by task
    * @param left
    *   the excluded splits
    * @param checked
    *   those of `left` that were excluded because their file is unchanged
    * @param changed
    *   number of splits that are read because their file has changed
    */
  final case class Choice(
      splits: Array[ChosenSplits],
      left: Seq[LeftOut],
      checked: Option[ChosenSplits],
      changed: Int
  ) {

    /** Whether tasks get learned statistics. */
    def isLearned: Boolean = checked.isDefined || splits.exists(_.known.exists(_ != null))
  }

  /** An excluded split.
    *
    * @param bounds
    *   by column of the spec
    * @param rowGroups
    *   the learned row groups, if any
    * @param bytes
    *   bytes that the scan would read of it, if known
    */
  final case class LeftOut(
      file: PartitionedFile,
      bounds: IndexedSeq[ColumnBounds],
      rowGroups: Option[Array[LearnedRowGroup]],
      bytes: Option[Long]
  )

  /** Parameters for making tasks.
    *
    * @param atLeast
    *   smallest number of tasks, if there are enough splits
    * @param openCost
    *   cost of opening a file, in bytes (`spark.sql.files.openCostInBytes`)
    */
  final case class Tasks(atLeast: Int, openCost: Long)

  /** What the driver knows of files.
    *
    * @param statistics
    *   learned by earlier queries
    * @param ask
    *   asks the file system, at most once. Says for each file whether it is unchanged since it was listed; None without an
    *   answer
    * @param fromTable
    *   by column of the spec, bounds of files from the table's log
    * @param wanted
    *   whether the scan reads a leaf column, see [[ChunkSizes.wanted]]
    */
  final case class FileFacts(
      statistics: FileStatistics,
      ask: Seq[PartitionedFile] => PartitionedFile => Option[Boolean],
      fromTable: Int => PartitionedFile => Option[ColumnBounds] = _ => _ => None,
      wanted: String => Boolean = _ => true
  )

  /** @param pruner
    *   has the complete filters
    * @return
    *   None if no split is excluded and nothing is known for the tasks, so that Spark's own partitions can stay
    */
  def choose(
      partitions: Seq[FilePartition],
      spec: ScanSpec,
      pruner: Pruner,
      facts: FileFacts,
      tasks: Tasks
  ): Option[Choice] = {
    import facts._
    val keys = spec.columns.map(spec.statisticsKey)
    def split(f: PartitionedFile): Split = {
      val learned = spec.columns.indices.map { i =>
        if (spec.columns(i).isPartitionColumn) None
        else statistics.find(f.urlEncodedPath, FileIdentity.listed(f), keys(i), f.start, f.start + f.length)
      }
      val certain = spec.columns.zipWithIndex.map { case (c, i) =>
        if (c.isPartitionColumn) c.partitionBounds(f.partitionValues)
        else fromTable(i)(f).getOrElse(ColumnBounds.unknown)
      }
      def bytes = statistics.bytes(f.urlEncodedPath, FileIdentity.listed(f), f.start, f.start + f.length)(wanted)
      new Split(f, spec, certain, learned, if (learned.exists(_.isDefined)) bytes else None)
    }
    val found = partitions.map(_.files.map(split).toSeq)
    val doubtful = found.flatten.filter(s => pruner.excludes(s.bounds) && !pruner.excludes(s.certain))
    val answer: PartitionedFile => Option[Boolean] = if (doubtful.isEmpty) _ => None else ask(doubtful.map(_.file))
    val answers = doubtful.map(s => s -> answer(s.file)).toMap
    val packedBySpark = found.map(_.map(s => if (answers.get(s).flatten.contains(false)) s.unlearned else s))
    val (left, kept) =
      packedBySpark.flatten.partition(s => pruner.excludes(s.certain) || answers.get(s).flatten.contains(true))
    val changed = answers.valuesIterator.count(_.contains(false))
    if (left.isEmpty && changed == 0 && kept.forall(_.isUnknown)) None
    else {
      val packed =
        Packing.deal(packedBySpark, kept, spec.orders, tasks)(_.file.length + tasks.openCost, _.bounds(_))
      def chosen(splits: Seq[Split], i: Int) =
        new ChosenSplits(
          FilePartition(i, splits.map(_.file).toArray),
          splits.map(_.known).toArray,
          splits.map(_.fromTable).toArray
        )
      val asked = left.filter(answers.contains)
      val checked = Option.when(asked.nonEmpty)(chosen(asked, 0))
      // Another execution needs tasks that check these files again.
      val least = math.min((asked.size + LeftOfATask - 1) / LeftOfATask, math.max(tasks.atLeast, 1))
      val all = packed ++ Seq.fill(least - packed.size)(Seq.empty[Split])
      val splits = all.zipWithIndex.map { case (task, i) => chosen(task, i) }
      val leftOut = left.map(s => LeftOut(s.file, s.bounds, s.learned.flatten.headOption, s.bytes))
      Some(Choice(splits.toArray, leftOut, checked, changed))
    }
  }

  /** @param certain
    *   bounds by column of the spec that hold without a check of the file
    */
  private final class Split(
      val file: PartitionedFile,
      spec: ScanSpec,
      val certain: IndexedSeq[ColumnBounds],
      val learned: IndexedSeq[Option[Array[LearnedRowGroup]]],
      val bytes: Option[Long]
  ) {

    /** Bounds that hold if the file is unchanged since it was listed. */
    val bounds: IndexedSeq[ColumnBounds] = spec.columns.indices.map { i =>
      learned(i).map(FileStatistics.boundsOf(_, spec.columns(i).domain)).getOrElse(certain(i))
    }

    def unlearned: Split = new Split(file, spec, certain, learned.map(_ => None), None)
    def isUnknown: Boolean = bounds.forall(_ == ColumnBounds.unknown)

    /** null if the table's log has no bounds. */
    def fromTable: Array[ColumnBounds] = {
      val bounds =
        spec.columns.indices.map(i => if (spec.columns(i).isPartitionColumn) ColumnBounds.unknown else certain(i))
      if (bounds.forall(_ == ColumnBounds.unknown)) null else bounds.toArray
    }
    def known: LearnedColumns =
      if (learned.forall(_.isEmpty)) null else new LearnedColumns(learned.map(_.orNull).toArray, bytes)
  }

  /** Number of excluded splits that a task checks again in another execution. */
  private val LeftOfATask = 100
}
