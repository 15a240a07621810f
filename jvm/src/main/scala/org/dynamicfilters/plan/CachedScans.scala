package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.columnar.{CachedBatchSerializer, SimpleMetricsCachedBatchSerializer}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.TableCacheQueryStageExec
import org.apache.spark.sql.execution.columnar.{InMemoryTableScanExec, InMemoryTableScanLike}
import org.apache.spark.sql.types.BinaryType
import org.dynamicfilters.operators.CachedScanExec
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.state.Producer

/** Decides which filters help a scan of cached data. [[RowScans]] uses it. */
object CachedScans {

  /** Matches scans of cached data, filtered or not, for Spark or for another engine. */
  def unapply(plan: SparkPlan): Option[SparkPlan] = plan match {
    case _: CachedScanExec | _: InMemoryTableScanLike | _: TableCacheQueryStageExec => Some(plan)
    case _ => None
  }

  /** Whether a filter on the column helps an unfiltered scan, or why not.
    *
    * @param crossed whether an exchange lies between the producer and the scan: then the scan drops single rows too
    */
  def helps(scan: SparkPlan, column: Attribute, producer: Producer.Value, crossed: Boolean): Either[Reason, Unit] =
    for {
      cached <- CachedScanExec.scanOf(scan).toRight(Reasons.CacheOperator(scan.nodeName.trim))
      serializer = cached.relation.cacheBuilder.serializer
      _ <- Either.cond(isSparks(serializer), (), Reasons.CacheSerializer(serializer.getClass.getSimpleName))
      _ <- Either.cond(cached.conf.inMemoryPartitionPruning, (), Reasons.CacheNotPruned)
      _ <- Either.cond(
        column.dataType != BinaryType || (crossed && producer == Producer.join),
        (),
        Reasons.CacheBounds(column.dataType.catalogString)
      )
    } yield ()

  /** Whether the serializer is one of Spark's. A third-party subclass may keep other statistics than
    * [[org.dynamicfilters.scan.sources.CachedBatches]] reads, or in another order.
    */
  private def isSparks(s: CachedBatchSerializer): Boolean =
    s.isInstanceOf[SimpleMetricsCachedBatchSerializer] &&
      s.getClass.getPackageName == classOf[InMemoryTableScanExec].getPackageName
}
