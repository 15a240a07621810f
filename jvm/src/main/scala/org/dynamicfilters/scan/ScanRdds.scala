package org.dynamicfilters.scan

import scala.reflect.ClassTag

import org.apache.spark.{OneToOneDependency, Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{FilePartition, FileScanRDD, PartitionedFile}

/** Announces a filtered scan to each task before the scan's own RDD starts.
  *
  * The order matters: completion listeners run in reverse, so the report is taken after the scan has closed its files.
  */
final class ScanTaskRDD[T: ClassTag](
    prev: RDD[T],
    spec: ScanSpec,
    runs: IndexedSeq[Long],
    reports: ScanAccumulator,
    finish: ScanReport => Unit
) extends RDD[T](prev.sparkContext, Seq(new OneToOneDependency(prev))) {
  override protected def getPartitions: Array[Partition] = firstParent[T].partitions
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    firstParent[T].preferredLocations(split)

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    TaskScan.begin(
      spec,
      runs,
      context,
      { report =>
        finish(report)
        reports.add(report)
      }
    )
    firstParent[T].iterator(split, context)
  }
}

/** A file scan whose splits are read in another order: best first by what is known of them.
  *
  * `FileScanRDD` does the reading; it takes its files from the partition that it is given, not from its own list.
  */
final class OrderedFileScanRDD(scan: FileScanRDD, spec: ScanSpec, ordered: Array[OrderedSplits])
    extends RDD[InternalRow](scan.sparkContext, Nil) {
  override protected def getPartitions: Array[Partition] = ordered.asInstanceOf[Array[Partition]]
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    split.asInstanceOf[OrderedSplits].files.preferredLocations().toSeq

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val part = split.asInstanceOf[OrderedSplits]
    TaskScan.current(spec.scanId).foreach { task =>
      part.files.files.indices.foreach { i =>
        if (part.known(i) != null) task.know(part.files.files(i), part.known(i))
      }
    }
    scan.compute(part.files, context)
  }
}

/** Splits of one task with what is known of them, null where nothing is. */
final class OrderedSplits(val files: FilePartition, val known: Array[Array[LearnedRowGroup]]) extends Partition {
  override def index: Int = files.index
}

object OrderedFileScanRDD {

  /** Orders the splits of a scan by learned statistics and partition values.
    *
    * @return
    *   None if nothing is known of any of them: then Spark's order stays
    */
  def of(scan: FileScanRDD, spec: ScanSpec, statistics: FileStatistics): Option[OrderedFileScanRDD] = {
    val c = spec.columns(TaskScan.OrderingColumn)
    val key = spec.statisticsKey(c)
    val splits = scan.filePartitions.flatMap(_.files)
    def known(f: PartitionedFile): Option[Array[LearnedRowGroup]] =
      statistics.find(f.urlEncodedPath, f.fileSize, f.modificationTime, key, f.start, f.start + f.length)
    val withBounds = splits.map { f =>
      val groups = if (c.isPartitionColumn) None else known(f)
      val bounds =
        if (c.isPartitionColumn)
          Some(
            org.dynamicfilters.filter.ColumnBounds
              .exact(c.ref.spec.domain.fromRow(f.partitionValues, c.partitionOrdinal))
          )
        else groups.map(FileStatistics.boundsOf(_, c.ref.spec.domain))
      (f, groups, bounds.getOrElse(org.dynamicfilters.filter.ColumnBounds.unknown))
    }
    if (splits.isEmpty || withBounds.forall(_._3 == org.dynamicfilters.filter.ColumnBounds.unknown)) None
    else {
      val best = withBounds.sortWith((a, b) => BestFirst.before(a._3, b._3, c.ref.spec))
      // As Spark packs them, with the largest task of its own packing as the limit.
      val limit = scan.filePartitions.map(_.files.map(_.length).sum).max
      val packed = scala.collection.mutable.ArrayBuffer.empty[Vector[(PartitionedFile, Option[Array[LearnedRowGroup]])]]
      var size = 0L
      best.foreach { case (f, groups, _) =>
        if (packed.isEmpty || size + f.length > limit) {
          packed += Vector.empty
          size = 0L
        }
        packed(packed.size - 1) = packed.last :+ ((f, groups))
        size += f.length
      }
      val parts = packed.zipWithIndex.map { case (files, i) =>
        new OrderedSplits(FilePartition(i, files.map(_._1).toArray), files.map(_._2.orNull).toArray)
      }.toArray
      Some(new OrderedFileScanRDD(scan, spec, parts))
    }
  }
}
