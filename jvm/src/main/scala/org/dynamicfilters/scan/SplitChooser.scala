package org.dynamicfilters.scan

import scala.collection.mutable

import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}

/** Chooses on the driver, before a scan starts, which splits are read and in which order.
  *
  * Splits that a complete filter excludes, by partition values or by what earlier queries learned of the files, get no task.
  * Under a TopK the best ones come first.
  */
object SplitChooser {

  /** @param splits
    *   those to read
    * @param left
    *   those left out, with what is known of their row groups
    */
  final case class Choice(splits: Array[ChosenSplits], left: Seq[(PartitionedFile, Option[Array[LearnedRowGroup]])])

  /** @param ready
    *   by column of the spec, the filters that are complete
    * @param minParallelism
    *   tasks to make, if there are splits enough
    * @return
    *   None if there is nothing to choose and nothing to tell the tasks: then Spark's own partitions stay
    */
  def choose(
      partitions: Seq[FilePartition],
      spec: ScanSpec,
      ready: IndexedSeq[Option[ValueFilter]],
      statistics: FileStatistics,
      minParallelism: Int
  ): Option[Choice] = {
    val keys = spec.columns.map(spec.statisticsKey)
    def split(f: PartitionedFile): Split = {
      val learned = spec.columns.indices.map { i =>
        if (spec.columns(i).isPartitionColumn) None
        else statistics.find(f.urlEncodedPath, f.fileSize, f.modificationTime, keys(i), f.start, f.start + f.length)
      }
      new Split(f, learned, spec.columns.indices.map(i => boundsOf(f, spec.columns(i), learned(i))))
    }
    val packedBySpark = partitions.map(_.files.map(split).toSeq)
    val (kept, left) = packedBySpark.flatten.partition { s =>
      spec.columns.indices.forall(i => ready(i).forall(f => f != ValueFilter.Nothing && f.couldPass(s.bounds(i))))
    }
    val orders = spec.orders.filter { case (c, _) => kept.exists(_.bounds(c) != ColumnBounds.unknown) }
    if (left.isEmpty && kept.forall(_.isUnknown)) None
    else {
      val packed =
        if (orders.nonEmpty) pack(BestFirst.sort(kept, orders)(_.bounds(_)), largest(partitions))
        else if (left.isEmpty) packedBySpark
        else {
          val total = kept.map(_.file.length).sum
          pack(kept, math.min(largest(partitions), total / math.max(minParallelism, 1) + 1))
        }
      val chosen = packed.zipWithIndex.map { case (splits, i) =>
        new ChosenSplits(FilePartition(i, splits.map(_.file).toArray), splits.map(_.known).toArray)
      }
      Some(Choice(chosen.toArray, left.map(s => (s.file, s.learned.flatten.headOption))))
    }
  }

  private final class Split(
      val file: PartitionedFile,
      val learned: IndexedSeq[Option[Array[LearnedRowGroup]]],
      val bounds: IndexedSeq[ColumnBounds]
  ) {
    def isUnknown: Boolean = bounds.forall(_ == ColumnBounds.unknown)
    def known: LearnedColumns =
      if (learned.forall(_.isEmpty)) null else new LearnedColumns(learned.map(_.orNull).toArray)
  }

  private def boundsOf(f: PartitionedFile, c: ScanColumn, learned: Option[Array[LearnedRowGroup]]): ColumnBounds =
    if (c.isPartitionColumn) ColumnBounds.exact(c.domain.fromRow(f.partitionValues, c.partitionOrdinal))
    else learned.map(FileStatistics.boundsOf(_, c.domain)).getOrElse(ColumnBounds.unknown)

  /** Bytes of the largest task that Spark packed: no task gets more. */
  private def largest(partitions: Seq[FilePartition]): Long =
    partitions.map(_.files.map(_.length).sum).maxOption.getOrElse(0L)

  /** In the order given, as many splits a task as fit. */
  private def pack(splits: Seq[Split], limit: Long): Seq[Seq[Split]] = {
    val packed = mutable.ArrayBuffer.empty[mutable.ArrayBuffer[Split]]
    var size = 0L
    splits.foreach { s =>
      if (packed.isEmpty || size + s.file.length > limit) {
        packed += mutable.ArrayBuffer.empty
        size = 0L
      }
      packed.last += s
      size += s.file.length
    }
    packed.map(_.toSeq).toSeq
  }
}
