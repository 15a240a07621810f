package org.dynamicfilters.operators

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.dynamicfilters.{MetricsAccess, SparkAccess}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.{BinaryType, DecimalType, StringType}
import org.dynamicfilters.exchange.{ExecutorExchange, TaskSnapshots}
import org.dynamicfilters.filter.FilterCodec
import org.dynamicfilters.report.{QueryReports, TopKRun}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state._

/** Learns the bound of the TopK or aggregate above it: counts the rows that pass by and drops those that cannot be among the
  * best.
  *
  * Every row it hands on is a candidate of the operator above. Dropping here saves the copy that Spark's TopK makes of each
  * row, even where no scan below could be filtered further.
  *
  * @param filters
  *   one, or those of several min and max: a row is needed if one of them needs it
  * @param keys
  *   by filter, ordinal of the key in the child's output
  * @param columns
  *   for reports, the scans' names of the key; of several filters, a name for each
  */
case class TopKTapExec(filters: Seq[TopKRef], keys: Seq[Int], columns: Seq[String], child: SparkPlan)
    extends UnaryExecNode {
  private def columnsOf(filter: Int): Seq[String] =
    if (filters.size == 1) columns else columns.slice(filter, filter + 1)
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override lazy val metrics: Map[String, SQLMetric] = Map(
    "rowsOutput" -> MetricsAccess.sum(sparkContext, "number of output rows"),
    "rowsDropped" -> MetricsAccess.sum(sparkContext, "rows dropped by the bound")
  )

  private def name: String = if (filters.head.producer == Producer.topk) "TopKFilter" else "AggregateFilter"
  override def nodeName: String = NodeNames(name, filters.map(_.id))
  override def simpleString(maxFields: Int): String = {
    val bounds = filters.indices.map(i => filters(i).describe(columnsOf(i).headOption.getOrElse(output(keys(i)).name)))
    val limit = if (filters.head.producer == Producer.topk) s", limit=${filters.head.spec.limit}" else ""
    s"$name ${bounds.mkString(" OR ")}$limit"
  }

  override protected def doExecute(): RDD[InternalRow] = {
    // Before the scans below start: they belong to the same run.
    val runs = filters.map(_.nextRun())
    val rows = child.execute()
    val started = filters.indices.map(start)
    if (SparkAccess.determinism(rows) == DeterministicLevel.INDETERMINATE) {
      // A retried task would see other rows than those that were counted (contract 5).
      started.foreach(_.disabled = Some("the input gives other rows when a task is retried"))
      rows
    } else {
      val parts = filters.indices.map(i => TopKTapPart(filters(i), runs(i), keys(i), started(i).accumulator)).toArray
      val (output, dropped) = (longMetric("rowsOutput"), longMetric("rowsDropped"))
      val snapshots = TapSnapshots(sparkContext, filters, runs)
      // The index of this RDD's partition, not the task's: see TaskFilters.start.
      new MappedRDD(
        rows,
        (partition, it: Iterator[InternalRow]) => TopKTap(it, parts, partition, output, dropped, snapshots)
      )
    }
  }

  private def start(i: Int): TopKRun = {
    val accumulator = new TopKAccumulator
    sparkContext.register(accumulator)
    val started = new TopKRun(filters(i), columnsOf(i), Settings.get(conf, Settings.ShowValues), accumulator)
    filters(i).started(started)
    QueryReports.instance.note(sparkContext.getLocalProperty(TaskFilters.ExecutionIdProperty), session)(
      _.filters += started
    )
    started
  }

  override protected def withNewChildInternal(newChild: SparkPlan): TopKTapExec = copy(child = newChild)
}

/** One filter of a tap, as its tasks get it. */
private final case class TopKTapPart(ref: TopKRef, run: Long, key: Int, accumulator: TopKAccumulator)

/** The tap in one task. */
private object TopKTap {
  private val MostReportedBytes = 4096

  def apply(
      rows: Iterator[InternalRow],
      parts: Array[TopKTapPart],
      partition: Int,
      output: SQLMetric,
      dropped: SQLMetric,
      snapshots: TapSnapshots
  ): Iterator[InternalRow] = {
    val context = TaskContext.get()
    ExecutorExchange.start()
    val bounds = if (TaskSnapshots.areNeeded) Some(snapshots.bounds(context, partition)) else None
    val accepting = parts.indices.toArray.flatMap(i =>
      start(context, parts(i), partition, dropped, alone = parts.length == 1, bounds.map(_(i)))
    )
    val isNeeded: InternalRow => Boolean =
      // Without an execution, or after its end, there is none.
      if (accepting.length < parts.length) _ => true
      else if (accepting.length == 1) accepting.head
      else { r =>
        // Every part counts the row that it needs, also where another one has decided.
        var needed = false
        var i = 0
        while (i < accepting.length) { needed |= accepting(i)(r); i += 1 }
        if (!needed) dropped += 1
        needed
      }
    val handedOn = new NeededRows(rows, isNeeded)
    context.addTaskCompletionListener[Unit](_ => output += handedOn.count)
    handedOn
  }

  /** Starts a filter's part in the task.
    *
    * @param pinned
    *   the shared bound with which the partition is computed in every attempt, where that matters
    * @return
    *   whether the part needs a row; counts it if so
    */
  private def start(
      context: TaskContext,
      part: TopKTapPart,
      partition: Int,
      dropped: SQLMetric,
      alone: Boolean,
      pinned: Option[TopKBound]
  ): Option[InternalRow => Boolean] =
    TaskFilters.start(context, part.ref, part.run, partition, pinned).map { task =>
      val execution = TaskFilters.executionId(context).getOrElse(-1L)
      context.addTaskCompletionListener[Unit] { c =>
        if (!c.isFailed() && !c.isInterrupted()) {
          task.flush()
          task.publish()
        }
        if (alone) dropped += task.dropped
        val bound = task.shared.bound
        val encoded =
          if (bound.isNone) None
          else
            // For reports only, and it counts in the size of the task's result, which Spark limits.
            Some(FilterCodec.encode(part.ref.spec.atLeastAsGoodAs(bound.key, inclusive = true)))
              .filter(_.length <= MostReportedBytes)
        val first = task.shared.firstBoundMillis
        part.accumulator.add(TopKSeen(execution, SparkEnv.get.executorId, bound.generation, encoded.orNull, first))
      }
      val key = part.key
      task match {
        case t: LongTaskTopK => r => if (r.isNullAt(key)) t.acceptNull() else t.accept(t.domain.longFromRow(r, key))
        case t: ObjectTaskTopK => acceptObject(t, key)
      }
    }

  private def acceptObject(t: ObjectTaskTopK, key: Int): InternalRow => Boolean = t.domain.dataType match {
    case _: StringType =>
      r =>
        if (r.isNullAt(key)) t.acceptNull()
        else {
          val s = r.getUTF8String(key)
          val wanted = t.wants(s)
          // The row's memory is reused: the key that is counted is a copy.
          if (wanted && t.counts) t.count(s.copy())
          wanted
        }
    case BinaryType => r => if (r.isNullAt(key)) t.acceptNull() else counted(t, r.getBinary(key))
    case d: DecimalType =>
      r => if (r.isNullAt(key)) t.acceptNull() else counted(t, r.getDecimal(key, d.precision, d.scale))
    case other => throw new IllegalStateException(s"no object keys of type ${other.sql}")
  }

  private def counted(t: ObjectTaskTopK, k: AnyRef): Boolean = {
    val wanted = t.wants(k)
    if (wanted && t.counts) t.count(k)
    wanted
  }
}

/** The rows that are needed, counted. */
private final class NeededRows(rows: Iterator[InternalRow], isNeeded: InternalRow => Boolean)
    extends Iterator[InternalRow] {
  private var ahead: InternalRow = _
  private var handedOn = 0L

  def count: Long = handedOn

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
    handedOn += 1
    row
  }
}
