package org.dynamicfilters.operators

import scala.util.control.NonFatal

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.scan.ApiFilter
import org.dynamicfilters.state.JoinRef

/** A DataSource V2 scan that takes filters at run time (`SupportsRuntimeV2Filtering`): it gets those that are complete before
  * it plans its partitions, the same way as Spark's own dynamic partition pruning.
  */
case class V2FilteredScanExec(filters: IndexedSeq[ApiFilter], child: SparkPlan) extends ApiFilteredScan {

  /** The scan that plans its partitions after it was told the filters. A copy, because the original may have planned them
    * already, when Spark asked how its data is partitioned.
    */
  @transient private lazy val filtered: SparkPlan = {
    val predicates = for {
      f <- filters
      state <- Seq(f.ref).collect { case j: JoinRef => j.state }
      complete <- state.current
      predicate <- V2Predicates.of(f.column.name, complete.convert(f.domain))
    } yield predicate
    if (predicates.isEmpty) child
    else
      try {
        child.asInstanceOf[BatchScanExec].scan.asInstanceOf[SupportsRuntimeV2Filtering].filter(predicates.toArray)
        val copy = child.makeCopy(child.productIterator.map(_.asInstanceOf[AnyRef]).toArray)
        copy.copyTagsFrom(child)
        copy
      } catch {
        case NonFatal(e) =>
          logWarning("Dynamic filters: the source did not take its filters, it is read without them", e)
          child
      }
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = filtered.execute()
    // Whoever relies on there being one partition finds one.
    if (rows.getNumPartitions == 0 && outputPartitioning == SinglePartition)
      sparkContext.parallelize(Seq.empty[InternalRow], 1)
    else rows
  }

  override protected def doExecuteColumnar(): RDD[ColumnarBatch] =
    // Some sources say by partition whether they are columnar, and one without partitions is not.
    if (filtered.supportsColumnar) filtered.executeColumnar()
    else if (outputPartitioning == SinglePartition) sparkContext.parallelize(Seq.empty[ColumnarBatch], 1)
    else sparkContext.emptyRDD[ColumnarBatch]

  override protected def withNewChildInternal(newChild: SparkPlan): V2FilteredScanExec = copy(child = newChild)
}
