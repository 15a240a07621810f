package org.dynamicfilters.scan

import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.dynamicfilters.filter.ColumnBounds

/** Chooses on the driver, before a scan starts, which splits are read and in which order.
  *
  * Splits that a complete filter excludes, by partition values or by what earlier queries learned of the files, get no task;
  * by the latter only after the file system said that the file is still the one that was listed. Under a TopK the best ones come first.
  */
object SplitChooser {

  /** @param splits
    *   those to read
    * @param left
    *   those left out
    * @param checked
    *   those of them that were left out because their file was still the one that was listed
    * @param changed
    *   splits that are read because their file is not the one any more that was listed
    */
  final case class Choice(
      splits: Array[ChosenSplits],
      left: Seq[LeftOut],
      checked: Option[ChosenSplits],
      changed: Int
  ) {

    /** Whether anything learned goes to the tasks. */
    def isLearned: Boolean = checked.isDefined || splits.exists(_.known.exists(_ != null))
  }

  /** A split that is left out.
    *
    * @param bounds
    *   by column of the spec
    * @param rowGroups
    *   if any of them are known
    * @param bytes
    *   that the scan would read of it, if they are known
    */
  final case class LeftOut(
      file: PartitionedFile,
      bounds: IndexedSeq[ColumnBounds],
      rowGroups: Option[Array[LearnedRowGroup]],
      bytes: Option[Long]
  )

  /** How tasks are made.
    *
    * @param atLeast
    *   as many, if there are splits enough
    * @param openCost
    *   bytes that could be read in the time that it takes to open a file (`spark.sql.files.openCostInBytes`)
    */
  final case class Tasks(atLeast: Int, openCost: Long)

  /** Asks the file system for files, and then tells of each whether it is as listed, None where there is no answer. */
  type Ask = Seq[PartitionedFile] => PartitionedFile => Option[Boolean]

  /** What the table's format says of a file that never changes, by column of the spec. */
  type FromTable = Int => PartitionedFile => Option[ColumnBounds]

  /** @param pruner
    *   has the filters that are complete
    * @param ask
    *   called once at most
    * @param wanted
    *   whether the scan reads a leaf column of files, see [[ChunkSizes]]
    * @return
    *   None if there is nothing to choose and nothing to tell the tasks: then Spark's own partitions stay
    */
  def choose(
      partitions: Seq[FilePartition],
      spec: ScanSpec,
      pruner: Pruner,
      statistics: FileStatistics,
      tasks: Tasks,
      ask: Ask,
      fromTable: FromTable = _ => _ => None,
      wanted: String => Boolean = _ => true
  ): Option[Choice] = {
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
      // Another execution needs tasks for these.
      val least = math.min((asked.size + LeftOfATask - 1) / LeftOfATask, math.max(tasks.atLeast, 1))
      val all = packed ++ Seq.fill(least - packed.size)(Seq.empty[Split])
      val splits = all.zipWithIndex.map { case (task, i) => chosen(task, i) }
      val leftOut = left.map(s => LeftOut(s.file, s.bounds, s.learned.flatten.headOption, s.bytes))
      Some(Choice(splits.toArray, leftOut, checked, changed))
    }
  }

  /** @param certain
    *   by column of the spec, what holds without a look at the file
    */
  private final class Split(
      val file: PartitionedFile,
      spec: ScanSpec,
      val certain: IndexedSeq[ColumnBounds],
      val learned: IndexedSeq[Option[Array[LearnedRowGroup]]],
      val bytes: Option[Long]
  ) {

    /** What holds if the file is the one that was listed. */
    val bounds: IndexedSeq[ColumnBounds] = spec.columns.indices.map { i =>
      learned(i).map(FileStatistics.boundsOf(_, spec.columns(i).domain)).getOrElse(certain(i))
    }

    def unlearned: Split = new Split(file, spec, certain, learned.map(_ => None), None)
    def isUnknown: Boolean = bounds.forall(_ == ColumnBounds.unknown)

    /** Null where the table says nothing. */
    def fromTable: Array[ColumnBounds] = {
      val bounds =
        spec.columns.indices.map(i => if (spec.columns(i).isPartitionColumn) ColumnBounds.unknown else certain(i))
      if (bounds.forall(_ == ColumnBounds.unknown)) null else bounds.toArray
    }
    def known: LearnedColumns =
      if (learned.forall(_.isEmpty)) null else new LearnedColumns(learned.map(_.orNull).toArray, bytes)
  }

  /** Splits that were left out, and of which a task asks the file system again in another execution. */
  private val LeftOfATask = 100
}
