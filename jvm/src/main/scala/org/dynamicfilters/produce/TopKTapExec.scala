package org.dynamicfilters.produce

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.dynamicfilters.SqlMetricsAccess
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.{BinaryType, DecimalType, StringType}
import org.dynamicfilters.Settings
import org.dynamicfilters.exchange._
import org.dynamicfilters.filter.FilterCodec
import org.dynamicfilters.report.{FilterRun, QueryReports}

/** Learns the bound of the TopK above it: counts the rows that pass by and drops those that cannot be among the best.
  *
  * Sits directly under `TakeOrderedAndProject`, so that every row it hands on is a candidate of the TopK. Dropping here saves
  * the copy that Spark makes of each row, even where no scan below could be filtered further.
  *
  * @param key
  *   ordinal of the first sort key in the child's output
  * @param columns
  *   the scans' names of the key, for reports
  */
case class TopKTapExec(filter: TopKRef, key: Int, columns: Seq[String], child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override lazy val metrics: Map[String, SQLMetric] = Map(
    "rowsDropped" -> SqlMetricsAccess.sum(sparkContext, "rows dropped by the bound")
  )

  override def simpleString(maxFields: Int): String =
    s"TopKFilter ${filter.describe(columns.headOption.getOrElse(output(key).name))}, limit=${filter.spec.limit}"

  override protected def doExecute(): RDD[InternalRow] = {
    // Before the scans below start: they belong to the same run.
    val run = filter.nextRun()
    val rows = child.execute()
    val accumulator = new FilterAccumulator
    sparkContext.register(accumulator)
    val started = new FilterRun(filter, columns, accumulator)
    val show = Settings.get(conf, Settings.ShowValues)
    filter.started(started, started.lastExpression(_, show))
    QueryReports.instance.note(sparkContext.getLocalProperty(TaskFilters.ExecutionIdProperty), session)(
      _.filters += started
    )
    if (SqlMetricsAccess.determinism(rows) == DeterministicLevel.INDETERMINATE) {
      // A retried task would see other rows than those that were counted (contract 5).
      started.disabled = Some("the input gives other rows when a task is retried")
      rows
    } else {
      val (ref, ordinal) = (filter, key)
      val dropped = longMetric("rowsDropped")
      // The index of this RDD's partition, not the task's: see TaskFilters.start.
      rows.mapPartitionsWithIndex(
        (partition, it) => TopKTap(it, ref, run, partition, ordinal, accumulator, dropped),
        preservesPartitioning = true
      )
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): TopKTapExec = copy(child = newChild)
}

/** The tap in one task. */
private object TopKTap {
  def apply(
      rows: Iterator[InternalRow],
      ref: TopKRef,
      run: Long,
      partition: Int,
      key: Int,
      accumulator: FilterAccumulator,
      dropped: SQLMetric
  ): Iterator[InternalRow] = {
    val context = TaskContext.get()
    TaskFilters.start(context, ref, run, partition) match {
      case None => rows
      case Some(task) =>
        val execution = TaskFilters.executionId(context).getOrElse(-1L)
        context.addTaskCompletionListener[Unit] { c =>
          if (!c.isFailed() && !c.isInterrupted()) {
            task.flush()
            task.publish()
          }
          dropped += task.dropped
          val bound = task.shared.bound
          val encoded =
            if (bound.isNone) null else FilterCodec.encode(ref.spec.atLeastAsGoodAs(bound.key, inclusive = true))
          accumulator.add(FilterSeen(execution, SparkEnv.get.executorId, bound.generation, encoded, task.dropped))
        }
        task match {
          case t: LongTaskTopK =>
            rows.filter(r => if (r.isNullAt(key)) t.acceptNull() else t.accept(t.domain.longFromRow(r, key)))
          case t: ObjectTaskTopK => rows.filter(acceptObject(t, key))
        }
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
