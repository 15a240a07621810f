package org.apache.spark.sql.execution.dynamicfilters

import java.lang.reflect.Field
import java.util.concurrent.ThreadPoolExecutor

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.connector.expressions.{Expression, FieldReference, LiteralValue}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.write.{RowLevelOperationTable, SupportsDelta}
import org.apache.spark.sql.execution.{QueryExecution, RowToColumnConverter}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, PartitioningAwareFileIndex}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.ui.{SparkListenerDriverAccumUpdates, SparkListenerSQLExecutionEnd}
import org.apache.spark.sql.execution.vectorized.{OnHeapColumnVector, WritableColumnVector}
import org.apache.spark.sql.internal.connector.PredicateUtils
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.{DataType, StructField, StructType}
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}
import org.apache.spark.storage.BroadcastBlockId
import org.apache.spark.util.ThreadUtils

/** Members of Spark that are visible only inside its own packages. */
object SparkAccess {

  /** A field of a class, public or not. */
  private[dynamicfilters] def field(c: Class[_], name: String): Field = {
    val f = c.getDeclaredField(name)
    f.setAccessible(true)
    f
  }

  /** The id of a session, the same for all of its threads. A stream's clone has the id of its [[owner]]. */
  def sessionId(session: SparkSession): String = owner(session).sessionUUID

  /** The session itself, or the session that started the stream whose batches run in this one. A stream runs its
    * batches in a clone (`StreamExecution.sparkSessionForStream`), which is found while the stream is active.
    */
  @tailrec
  def owner(session: SparkSession): org.apache.spark.sql.classic.SparkSession = {
    val classic = session.asInstanceOf[org.apache.spark.sql.classic.SparkSession]
    classic.sharedState.activeStreamingQueries.values.asScala.find(_.sparkSessionForStream eq classic) match {
      case Some(stream) => owner(stream.sparkSession)
      case None => classic
    }
  }

  def determinism(rdd: RDD[_]): DeterministicLevel.Value = rdd.outputDeterministicLevel

  /** The query that ended; null if the event was read from a log. */
  def queryOf(end: SparkListenerSQLExecutionEnd): QueryExecution = end.qe

  /** The running context's own configuration: `SparkContext.getConf` is a copy. */
  def confOf(sc: SparkContext): SparkConf = sc.conf

  /** Bytes that the results of a job may have, 0 for no limit. */
  def maxResultSize(conf: SparkConf): Long = conf.get(org.apache.spark.internal.config.MAX_RESULT_SIZE)

  /** Blocks of broadcasts that Spark holds on the driver or on executors.
    *
    * Spark looks through its blocks without a lock, and fails if one of them comes or goes meanwhile
    * (`BlockManagerMasterEndpoint` of 4.1 to 4.3): then it is asked again.
    *
    * @param ofInterest by the broadcast's id
    * @return how many blocks; None if Spark failed each time
    */
  def broadcastBlocks(ofInterest: Long => Boolean): Option[Long] = {
    def ask() = SparkEnv.get.blockManager.master.getMatchingBlockIds(
      { case b: BroadcastBlockId => ofInterest(b.broadcastId); case _ => false },
      // Executors do not know our classes where they would run this; they tell the driver of each block anyway.
      askStorageEndpoints = false
    )
    (1 to Attempts).iterator.flatMap(_ => Try(ask().size.toLong).toOption).nextOption()
  }

  private val Attempts = 20

  /** The configuration with which Spark opens the files of a relation. */
  def hadoopConf(relation: HadoopFsRelation): Configuration =
    relation.sparkSession.sessionState.newHadoopConfWithOptions(relation.options)

  /** A column in expressions of DataSource V2. */
  def column(name: String): Expression = FieldReference(Seq(name))

  /** A value in expressions of DataSource V2, as in Spark's InternalRow. */
  def literal(value: Any, dataType: DataType): Expression = LiteralValue(value, dataType)

  /** A predicate of DataSource V2 for Spark's own file formats. */
  def toV1(predicate: Predicate): Option[Filter] = PredicateUtils.toV1(predicate)

  /** A pool of daemon threads, which end after an idle second. */
  def threads(name: String, most: Int): ThreadPoolExecutor = ThreadUtils.newDaemonCachedThreadPool(name, most, 1)

  /** Waits until listeners have seen what was posted before, at most `millis`.
    *
    * @return false if they were slower
    */
  def awaitListeners(sc: SparkContext, millis: Long): Boolean =
    try { sc.listenerBus.waitUntilEmpty(millis); true }
    catch { case _: java.util.concurrent.TimeoutException => false }

  /** Adds to metrics of operators on the driver, visible in the UI. */
  def addOnDriver(sc: SparkContext, execution: Option[Long], values: Seq[(SQLMetric, Long)]): Unit = {
    values.foreach { case (metric, value) => metric.add(value) }
    execution.foreach { id =>
      sc.listenerBus.post(SparkListenerDriverAccumUpdates(id, values.map { case (m, value) => (m.id, value) }))
    }
  }

  /** A copy of some rows of a batch, which shares no memory with the batch. Made by Spark's `RowToColumnConverter`,
    * which supports all types of the running Spark.
    */
  def copied(batch: ColumnarBatch, rows: Array[Int]): ColumnarBatch = {
    val schema = StructType((0 until batch.numCols).map(i => StructField(s"_$i", batch.column(i).dataType)))
    val converter = new RowToColumnConverter(schema)
    val vectors = OnHeapColumnVector.allocateColumns(rows.length, schema)
    val writable: Array[WritableColumnVector] = vectors.map(v => v: WritableColumnVector)
    rows.foreach(r => converter.convert(batch.getRow(r), writable))
    new ColumnarBatch(vectors.map(v => v: ColumnVector), rows.length)
  }

  // Protected in Scala, public in bytecode.
  private lazy val leafFiles = classOf[PartitioningAwareFileIndex].getMethod("leafFiles")

  /** The object that holds the files of a listing. A refreshed listing has another one. */
  def listing(files: PartitioningAwareFileIndex): AnyRef = leafFiles.invoke(files)

  /** Whether MERGE, UPDATE or DELETE reads the table in order to change it. */
  def isChanged(table: Table): Boolean = table.isInstanceOf[RowLevelOperationTable]

  /** Whether the operation writes again all that it reads of the table, because it replaces whole files. */
  def isRewritten(table: Table): Boolean = table match {
    case t: RowLevelOperationTable => !t.operation.isInstanceOf[SupportsDelta]
    case _ => false
  }
}
