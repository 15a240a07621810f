package org.dynamicfilters.operators

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.exchange.{ExecutorExchange, TaskSnapshots}
import org.dynamicfilters.filter.{FilterCodec, KeyDomain, SortableBits}
import org.dynamicfilters.state._

/** One filter of a tap, in the form that its tasks get. */
private[operators] final case class TopKTapPart(ref: TopKRef, run: Long, key: Int, accumulator: TopKAccumulator)

/** Creates a tap in each task. Public, as [[TopKTap]], because generated code uses it. */
final class TapSource extends Serializable {
  // None if the tap is disabled: all rows pass uncounted.
  private var parts: Option[Array[TopKTapPart]] = None
  private var snapshots: SnapshotsRef = _
  private var output, dropped: SQLMetric = _

  private[operators] def fill(
      parts: Array[TopKTapPart],
      snapshots: SnapshotsRef,
      output: SQLMetric,
      dropped: SQLMetric
  ): Unit = {
    this.parts = Some(parts)
    this.snapshots = snapshots
    this.output = output
    this.dropped = dropped
  }

  /** @param partition of the tap's RDD, not the task's: see [[TaskFilters.start]] */
  def start(partition: Int): TopKTap = {
    val context = TaskContext.get()
    parts.fold(new TopKTap(Array.empty, Array.empty, null)) { parts =>
      ExecutorExchange.start()
      val bounds = Option.when(TaskSnapshots.outputMustBeFixed) {
        TaskSnapshots.ofPartition(context, snapshots, partition).map {
          case SnapshotFilter.Bound(b) => b
          // Without a snapshot, the attempt has its own bound alone.
          case _ => TopKBound.none
        }
      }
      val started = parts.indices.flatMap { i =>
        TaskFilters.start(context, parts(i).ref, parts(i).run, partition, bounds.map(_(i))).map(_ -> parts(i))
      }
      val alone = parts.length == 1
      started.foreach { case (task, part) =>
        context.addTaskCompletionListener[Unit](TopKTap.ended(_, task, part, if (alone) dropped else null))
      }
      // Without a running execution there are no bounds, and every row is needed.
      val used = if (started.length == parts.length) started else Nil
      val tap = new TopKTap(used.map(_._1).toArray, used.map(_._2.key).toArray, if (alone) null else dropped)
      context.addTaskCompletionListener[Unit](_ => output += tap.count)
      tap
    }
  }
}

/** The tap in one task. Tests each row against the filters, and counts the rows that it passes on.
  *
  * @param tasks by filter; none if every row is needed
  * @param dropped counts the rows that no filter needs
  */
final class TopKTap private[operators] (tasks: Array[TaskTopK], keys: Array[Int], dropped: SQLMetric) {
  private var handedOn = 0L

  def count: Long = handedOn

  /** Counts a row as passed on or dropped. */
  def handsOn(needed: Boolean): Boolean = {
    if (needed) handedOn += 1 else if (dropped != null) dropped += 1
    needed
  }

  /** Whether the filter needs a row whose key is NULL. Counts the row if so. */
  def acceptsNull(i: Int): Boolean = tasks.length == 0 || tasks(i).acceptNull()

  // One variant for each Java type of keys in generated code.
  def accepts(i: Int, key: Boolean): Boolean = acceptsLong(i, if (key) 1L else 0L)
  def accepts(i: Int, key: Byte): Boolean = acceptsLong(i, key.toLong)
  def accepts(i: Int, key: Short): Boolean = acceptsLong(i, key.toLong)
  def accepts(i: Int, key: Int): Boolean = acceptsLong(i, key.toLong)
  def accepts(i: Int, key: Long): Boolean = acceptsLong(i, key)
  def accepts(i: Int, key: Float): Boolean = acceptsLong(i, SortableBits.ofFloat(key).toLong)
  def accepts(i: Int, key: Double): Boolean = acceptsLong(i, SortableBits.ofDouble(key))
  def accepts(i: Int, key: UTF8String): Boolean = acceptsObject(i, key)
  def accepts(i: Int, key: Array[Byte]): Boolean = acceptsObject(i, UTF8String.fromBytes(key))

  private def acceptsObject(i: Int, key: AnyRef): Boolean =
    tasks.length == 0 || tasks(i).asInstanceOf[ObjectTaskTopK].accept(key)

  private def acceptsLong(i: Int, key: Long): Boolean =
    tasks.length == 0 || tasks(i).asInstanceOf[LongTaskTopK].accept(key)

  /** Filters an iterator of rows, outside of generated code. */
  private[operators] def rowFilter: InternalRow => Boolean =
    if (tasks.length == 0) { _ => handsOn(true) }
    else {
      val accepting = tasks.zip(keys).map { case (t, key) => TopKTap.keyTest(t, key) }
      if (accepting.length == 1) { r => handsOn(accepting.head(r)) }
      else { r =>
        var needed = false
        var i = 0
        while (i < accepting.length) { needed |= accepting(i)(r); i += 1 }
        handsOn(needed)
      }
    }
}

private[operators] object TopKTap {
  private val MostReportedBytes = 4096

  /** Whether generated code can call `accepts` with values of the type. Not with decimals, whose scale there may differ
    * from their type's.
    */
  def supportsCodegen(dataType: DataType): Boolean = dataType match {
    case _: DecimalType => false
    case StringType | BinaryType => true
    case other => KeyDomain.forType(other).isRight
  }

  def ended(context: TaskContext, task: TaskTopK, part: TopKTapPart, dropped: SQLMetric): Unit = {
    if (!context.isFailed() && !context.isInterrupted()) {
      task.flush()
      task.publish()
    }
    if (dropped != null) dropped += task.dropped
    val bound = task.shared.bound
    val encoded =
      if (bound.isNone) None
      else
        // Only for reports. Bounded, because it counts towards Spark's limit on the size of task results.
        Some(FilterCodec.encode(part.ref.spec.atLeastAsGoodAs(bound.key, inclusive = true)))
          .filter(_.length <= MostReportedBytes)
    val first = task.shared.firstBoundMillis
    val execution = TaskFilters.executionId(context).getOrElse(-1L)
    part.accumulator.add(TopKSeen(execution, SparkEnv.get.executorId, bound.generation, encoded.orNull, first))
  }

  def keyTest(task: TaskTopK, key: Int): InternalRow => Boolean = task match {
    case t: LongTaskTopK => r => if (r.isNullAt(key)) t.acceptNull() else t.accept(t.domain.longFromRow(r, key))
    case t: ObjectTaskTopK => r => if (r.isNullAt(key)) t.acceptNull() else t.accept(t.domain.viewOfRow(r, key))
  }
}

/** Iterates over the needed rows. */
private[operators] final class NeededRows(rows: Iterator[InternalRow], isNeeded: InternalRow => Boolean)
    extends Iterator[InternalRow] {
  private var ahead: InternalRow = _

  override def hasNext: Boolean = {
    while (ahead == null && rows.hasNext) {
      val row = rows.next()
      if (isNeeded(row)) ahead = row
    }
    ahead != null
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    val row = ahead
    ahead = null
    row
  }
}
