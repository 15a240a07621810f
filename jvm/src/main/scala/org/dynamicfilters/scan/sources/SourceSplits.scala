package org.dynamicfilters.scan.sources

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.expressions.NamedReference
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.scan._

/** A part of a DataSource V2 scan that can be read by itself: one of the source's splits, or a file of it.
  *
  * @param bounds certain bounds of its rows, by column of the scan's spec: a source does not change planned data
  * @param file hash of its path; 0 if it is not a file
  */
final class SourcePart(
    val partition: InputPartition,
    val bounds: IndexedSeq[ColumnBounds],
    val bytes: Long,
    val file: Long
) extends Serializable

/** The parts that one task reads, in this order. */
final class SourceSplit(val parts: IndexedSeq[SourcePart]) extends InputPartition {
  override def preferredLocations(): Array[String] = parts.headOption.fold(Array.empty[String])(
    _.partition.preferredLocations()
  )
}

/** Wraps a source's scan, and reads chosen parts in a chosen order. Spark's partition pruning still reaches it. */
final class ChosenScan(
    inner: SupportsRuntimeV2Filtering,
    columnar: Boolean,
    choose: Seq[InputPartition] => Seq[InputPartition],
    factory: PartitionReaderFactory
) extends SupportsRuntimeV2Filtering {
  override def readSchema(): StructType = inner.readSchema()
  override def description(): String = inner.description()
  override def columnarSupportMode(): Scan.ColumnarSupportMode =
    if (columnar) Scan.ColumnarSupportMode.SUPPORTED else Scan.ColumnarSupportMode.UNSUPPORTED
  override def supportedCustomMetrics(): Array[CustomMetric] = inner.supportedCustomMetrics()
  override def reportDriverMetrics(): Array[CustomTaskMetric] = inner.reportDriverMetrics()
  override def toBatch: Batch = new Batch {
    private val batch = inner.toBatch
    override def planInputPartitions(): Array[InputPartition] = choose(batch.planInputPartitions().toSeq).toArray
    override def createReaderFactory(): PartitionReaderFactory = factory
  }
  override def filterAttributes(): Array[NamedReference] = inner.filterAttributes()
  override def filter(predicates: Array[Predicate]): Unit = inner.filter(predicates)

  // Empty: Spark must not filter the source a second time. New in Spark 4.2.
  override def pushedPredicates(): Array[Predicate] = Array.empty
  override def supportsIterativePushdown(): Boolean = false
}

/** Reads the parts of a split one by one, and skips those that filters exclude by then. */
final class PartsReaderFactory(inner: PartitionReaderFactory, scanId: Long, columnar: Boolean)
    extends PartitionReaderFactory {
  override def supportColumnarReads(partition: InputPartition): Boolean = columnar
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new PartsReader(parts(partition), scanId, inner.createReader)
  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    new PartsReader(parts(partition), scanId, inner.createColumnarReader)

  private def parts(partition: InputPartition) = partition.asInstanceOf[SourceSplit].parts
}

private final class PartsReader[T](
    parts: IndexedSeq[SourcePart],
    scanId: Long,
    open: InputPartition => PartitionReader[T]
) extends PartitionReader[T] {
  private val task = TaskScan.current(scanId)
  private var at = 0
  private var current: PartitionReader[T] = _
  // Sums over closed parts and the task's previous readers.
  private val metrics = mutable.LinkedHashMap.empty[String, Long]

  override def next(): Boolean = {
    var more = current != null && current.next()
    while (!more && at < parts.length) {
      closeCurrent()
      val part = parts(at)
      at += 1
      if (!isExcluded(part)) {
        current = open(part.partition)
        more = current.next()
      }
    }
    more
  }

  private def isExcluded(part: SourcePart): Boolean = task.exists { t =>
    val excluded = t.pruner().excludes(part.bounds)
    if (excluded) t.report.leftUnopened(part.file)
    else {
      t.report.add(ScanCounter.Splits, 1)
      if (part.file != 0) {
        t.report.files.opened += part.file
        t.report.files.read += part.file
      }
    }
    excluded
  }

  override def get(): T = current.get()

  // Spark passes the metrics of the task's previous reader.
  override def initMetricsValues(values: Array[CustomTaskMetric]): Unit =
    values.foreach(m => metrics(m.name()) = m.value())

  override def currentMetricsValues(): Array[CustomTaskMetric] = {
    val now = metrics.clone()
    if (current != null) addTo(now)
    now.map { case (n, v) => new PartsMetric(n, v): CustomTaskMetric }.toArray
  }

  private def addTo(sums: mutable.Map[String, Long]): Unit =
    current.currentMetricsValues().foreach(m => sums(m.name()) = sums.getOrElse(m.name(), 0L) + m.value())

  private def closeCurrent(): Unit = if (current != null) {
    addTo(metrics)
    current.close()
    current = null
  }

  override def close(): Unit = closeCurrent()
}

private final class PartsMetric(override val name: String, override val value: Long) extends CustomTaskMetric {
  override def mergeWith(other: CustomTaskMetric): CustomTaskMetric = new PartsMetric(name, value + other.value)
}

/** As [[SplitChooser]], for the parts of a DataSource V2 scan, whose bounds are certain. */
object SourceChooser {

  /** @param splits the source's planned splits
    * @param excluded number of excluded parts
    */
  final case class Choice(splits: Seq[SourceSplit], excluded: Int)

  /** @param pruner has the complete filters
    * @param keepsPartitions whether each planned split stays a task of its own, with its parts in their order
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
