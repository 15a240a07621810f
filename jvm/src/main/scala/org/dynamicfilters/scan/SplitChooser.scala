package org.dynamicfilters.scan

import scala.collection.mutable

import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.scan.statistics.{FileIdentity, FileStatistics, SplitFacts}
import org.dynamicfilters.state.TopKSpec

/** Chooses the splits of a file scan and their order. Called by `DynamicFilterScanExec` on the driver before the scan
  * starts.
  *
  * Splits that a complete filter excludes by partition values or by the table's log get no task. Splits that only
  * learned statistics exclude go to tasks, which skip them if their file is unchanged ([[FileChecks]]). Under a TopK
  * the best splits come first.
  */
object SplitChooser {

  /** @param splits the splits to read, by task
    * @param excluded splits that get no task
    */
  final case class Choice(splits: Seq[ChosenSplits], excluded: Seq[Split]) {

    /** Whether tasks get learned statistics. */
    def isLearned: Boolean = splits.exists(_.facts.exists(_.hasLearned))
  }

  /** Parameters for making tasks.
    *
    * @param atLeast smallest number of tasks, if there are enough splits
    * @param openCost cost of opening a file, in bytes (`spark.sql.files.openCostInBytes`)
    */
  final case class Tasks(atLeast: Int, openCost: Long)

  /** What the driver knows of files.
    *
    * @param fromTable by column of the spec, bounds of files from the table's log
    * @param wanted whether the scan reads a leaf column, see [[ChunkSizes.wanted]]
    */
  final case class FileFacts(
      statistics: FileStatistics,
      fromTable: Int => PartitionedFile => Option[ColumnBounds] = _ => _ => None,
      wanted: String => Boolean = _ => true
  ) {
    def of(f: PartitionedFile, spec: ScanSpec, keys: IndexedSeq[String]): SplitFacts = {
      val (path, identity, end) = (f.urlEncodedPath, FileIdentity.listed(f), f.start + f.length)
      val columns = spec.columns.indices.toArray
      def inFile[A](column: Int)(found: => Option[A]) = if (spec.columns(column).isPartitionColumn) None else found
      val learned = columns.map(i => inFile(i)(statistics.find(path, identity, keys(i), f.start, end)).orNull)
      val logged = columns.map(i => inFile(i)(fromTable(i)(f)).getOrElse(ColumnBounds.unknown))
      if (learned.forall(_ == null) && logged.forall(_ == ColumnBounds.unknown)) SplitFacts.none
      else
        new SplitFacts(
          learned,
          if (logged.forall(_ == ColumnBounds.unknown)) Array.empty else logged,
          if (learned.forall(_ == null)) None else statistics.bytes(path, identity, f.start, end)(wanted)
        )
    }
  }

  /** @param bounds by column of the spec, bounds that hold if the file is unchanged since it was listed */
  final case class Split(file: PartitionedFile, facts: SplitFacts, bounds: IndexedSeq[ColumnBounds])

  /** @param pruner has the complete filters
    * @return None if no split is excluded and nothing is known for the tasks, so that Spark's own partitions can stay
    */
  def choose(
      partitions: Seq[FilePartition],
      spec: ScanSpec,
      pruner: Pruner,
      facts: FileFacts,
      tasks: Tasks
  ): Option[Choice] = {
    val keys = spec.columns.map(spec.statisticsKey)
    val planned = partitions.map(_.files.toSeq.map { f =>
      val known = facts.of(f, spec, keys)
      Split(f, known, spec.columns.indices.map(known.bounds(spec, f, _)))
    })
    val (left, kept) =
      planned.flatten.partition(s => pruner.excludes(s.facts.certainBounds(spec, s.file, _)))
    if (left.isEmpty && kept.forall(_.bounds.forall(_ == ColumnBounds.unknown))) None
    else {
      val packed = Packing.deal(planned, kept, spec.orders, tasks)(
        _.file.length + tasks.openCost,
        _.bounds(_),
        s => s.facts.hasLearned && pruner.excludes(s.bounds)
      )
      val splits = packed.zipWithIndex.map { case (task, i) =>
        new ChosenSplits(FilePartition(i, task.map(_.file).toArray), task.map(_.facts).toArray)
      }
      Some(Choice(splits, left))
    }
  }
}

/** Distributes splits to tasks. Used by [[SplitChooser]] and [[SourceChooser]]. */
private[scan] object Packing {

  /** Distributes the remaining splits: best first under a TopK; as planned if nothing was left out; else over as many
    * tasks as possible.
    *
    * @param weight bytes plus the cost of opening a file, as Spark counts (`spark.sql.files.openCostInBytes`). Without
    *   that cost, twenty thousand small files became one task
    * @param isSkipped whether the task will probably skip the split, which then weighs as much as opening a file
    */
  def deal[T](planned: Seq[Seq[T]], kept: Seq[T], orders: Seq[(Int, TopKSpec)], tasks: SplitChooser.Tasks)(
      weight: T => Long,
      bounds: (T, Int) => ColumnBounds,
      isSkipped: T => Boolean = (_: T) => false
  ): Seq[Seq[T]] = {
    val known = orders.filter { case (c, _) => kept.exists(bounds(_, c) != ColumnBounds.unknown) }
    val weighed = kept.map(t => t -> (if (isSkipped(t)) tasks.openCost else weight(t)))
    // No task gets more than the largest planned one.
    lazy val largest = planned.iterator.map(_.iterator.map(weight).sum).maxOption.getOrElse(0L)
    if (known.nonEmpty) pack(BestFirst.sort(weighed, known)((t, c) => bounds(t._1, c)), largest)
    else if (kept.size == planned.iterator.map(_.size).sum && !kept.exists(isSkipped)) planned
    else pack(weighed, math.min(largest, weighed.iterator.map(_._2).sum / math.max(tasks.atLeast, 1) + 1))
  }

  /** Fills tasks in the given order up to the limit; each task gets at least one split. */
  private def pack[T](weighed: Seq[(T, Long)], limit: Long): Seq[Seq[T]] = {
    val packed = mutable.ArrayBuffer.empty[mutable.ArrayBuffer[T]]
    var size = 0L
    weighed.foreach { case (t, weight) =>
      if (packed.isEmpty || size + weight > limit) {
        packed += mutable.ArrayBuffer.empty
        size = 0L
      }
      packed.last += t
      size += weight
    }
    packed.map(_.toSeq).toSeq
  }
}
