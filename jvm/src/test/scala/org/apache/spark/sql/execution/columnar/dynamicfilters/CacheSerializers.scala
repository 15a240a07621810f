package org.apache.spark.sql.execution.columnar.dynamicfilters

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, BindReferences, BoundReference, Expression, UnsafeProjection
}
import org.apache.spark.sql.classic
import org.apache.spark.sql.columnar.{CachedBatch, CachedBatchSerializer}
import org.apache.spark.sql.execution.columnar.{DefaultCachedBatch, DefaultCachedBatchSerializer, InMemoryRelation}
import org.apache.spark.sql.internal.{SQLConf, StaticSQLConf}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.storage.StorageLevel

/** Another way to cache tables, as engines bring their own. */
object CacheSerializers {

  /** Tables that are cached meanwhile are cached by it. Spark keeps the first one that it needs, and the setting is static. */
  def using[A](session: SparkSession, name: String)(body: => A): A = {
    val conf = session.asInstanceOf[classic.SparkSession].sessionState.conf
    val before = conf.getConf(StaticSQLConf.SPARK_CACHE_SERIALIZER)
    def set(name: String): Unit = {
      conf.setConfString(StaticSQLConf.SPARK_CACHE_SERIALIZER.key, name)
      InMemoryRelation.clearSerializer()
    }
    set(name)
    try body
    finally set(before)
  }
}

/** Some rows as they are. */
final case class RowsBatch(rows: Array[InternalRow]) extends CachedBatch {
  override def numRows: Int = rows.length
  override def sizeInBytes: Long = rows.length * 64L
}

/** Knows nothing of Spark's statistics of cached batches. */
class RowsSerializer extends CachedBatchSerializer {
  override def supportsColumnarInput(schema: Seq[Attribute]): Boolean = false
  override def supportsColumnarOutput(schema: StructType): Boolean = false

  override def convertInternalRowToCachedBatch(
      input: RDD[InternalRow],
      schema: Seq[Attribute],
      level: StorageLevel,
      conf: SQLConf
  ): RDD[CachedBatch] = input.mapPartitions(_.map(_.copy()).grouped(100).map(g => RowsBatch(g.toArray)))

  override def convertCachedBatchToInternalRow(
      input: RDD[CachedBatch],
      cached: Seq[Attribute],
      selected: Seq[Attribute],
      conf: SQLConf
  ): RDD[InternalRow] = {
    val positions = selected.map(a => cached.indexWhere(_.exprId == a.exprId))
    val columns: Seq[Expression] =
      positions.map(i => BoundReference(i, cached(i).dataType, cached(i).nullable))
    input.mapPartitions { batches =>
      val project = UnsafeProjection.create(BindReferences.bindReferences(columns, cached))
      batches.flatMap { case RowsBatch(rows) => rows.iterator.map(project(_)) }
    }
  }

  override def buildFilter(
      predicates: Seq[Expression],
      cached: Seq[Attribute]
  ): (Int, Iterator[CachedBatch]) => Iterator[CachedBatch] = (_, batches) => batches

  override def convertColumnarBatchToCachedBatch(
      input: RDD[ColumnarBatch],
      schema: Seq[Attribute],
      level: StorageLevel,
      conf: SQLConf
  ): RDD[CachedBatch] = throw new UnsupportedOperationException
  override def convertCachedBatchToColumnarBatch(
      input: RDD[CachedBatch],
      cached: Seq[Attribute],
      selected: Seq[Attribute],
      conf: SQLConf
  ): RDD[ColumnarBatch] = throw new UnsupportedOperationException
}

/** Has bytes only in the statistics of its batches: no bounds, no counts. */
class CountlessSerializer extends DefaultCachedBatchSerializer {
  override def convertInternalRowToCachedBatch(
      input: RDD[InternalRow],
      schema: Seq[Attribute],
      level: StorageLevel,
      conf: SQLConf
  ): RDD[CachedBatch] = super
    .convertInternalRowToCachedBatch(input, schema, level, conf)
    .mapPartitions(_.map {
      case b: DefaultCachedBatch => b.copy(stats = InternalRow.fromSeq(schema.flatMap(_ => Seq(null, null, 0, 0, 8L))))
      case other => other
    })

  override def buildFilter(
      predicates: Seq[Expression],
      cached: Seq[Attribute]
  ): (Int, Iterator[CachedBatch]) => Iterator[CachedBatch] = (_, batches) => batches
}
