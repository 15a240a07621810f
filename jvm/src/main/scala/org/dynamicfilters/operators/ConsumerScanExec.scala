package org.dynamicfilters.operators

import scala.reflect.ClassTag

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.scan.{ScanPlace, SentFilters}
import org.dynamicfilters.scan.sources.{ApiFilter, ConsumerTaskRDD}
import org.dynamicfilters.state.JoinRef

/** A custom scan (`org.dynamicfilters.api.FilterConsumer`) under dynamic filters. Waits for the filters if the planner says so, and
  * gives them to the scan's tasks. The custom scan itself decides what it skips.
  */
case class ConsumerScanExec(filters: IndexedSeq[ApiFilter], child: SparkPlan) extends FilteredScan {
  override protected def filterIds: Seq[Long] = filters.map(_.ref.id)
  override def simpleString(maxFields: Int): String = s"${FilteredScan.Name} ${filters.mkString(", ")}"
  override def joinFilters: Seq[(JoinRef, ScanPlace)] =
    filters.map(f => (f.ref, f.place)).collect { case (j: JoinRef, place) => (j, place) }

  override protected def doExecute(): RDD[InternalRow] = announced(child.execute())
  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = announced(child.executeColumnar())

  private def announced[T: ClassTag](rows: RDD[T]): RDD[T] = {
    val refs = filters.map(_.ref)
    val ready = FilteredScan.complete(refs)
    val sent = SentFilters(sparkContext, refs, ready, filters.exists(_.place.crossesExchange))
    started(new ConsumerTaskRDD(rows, filters, sent))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): ConsumerScanExec = copy(child = newChild)
}
