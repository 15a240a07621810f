package org.dynamicfilters.operators

import scala.util.control.NonFatal

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.internal.Logging
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.ExchangeQueryStageExec
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, Exchange, ReusedExchangeExec}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.filter.{KeyLimits, PluginFailure}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.report.{JoinRun, QueryReports}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state._

/** A filter of a [[BuildKeyTapExec]], and the key that the tap collects for it.
  *
  * @param key bound to the tap's output. Not canonicalized: the canonical form of a sum adds in another order, and that
  *   of a higher-order function cannot be evaluated
  */
final case class KeyTap(ref: JoinRef, key: Expression) {

  /** Whether the tap collects this key, for joins that compare NULLs in the same way. */
  def collects(key: Expression, nullsMatch: Boolean): Boolean = this.key == key && ref.nullsMatch == nullsMatch
}

/** Collects the keys of a join's build side below its exchange. [[org.dynamicfilters.plan.JoinPlanner]] inserts it.
  *
  * Each partition reports its keys once, at the end of its rows. A canonicalized tap is its canonicalized child, so that Spark
  * reuses the exchange above as it would without the tap.
  */
case class BuildKeyTapExec(taps: Seq[KeyTap], child: SparkPlan, broadcast: Boolean) extends SameOutput {
  override lazy val metrics: Map[String, SQLMetric] = Map(
    "rows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "keyBytes" -> SQLMetrics.createSizeMetric(sparkContext, "size of collected keys"),
    "gaveUp" -> SQLMetrics.createMetric(sparkContext, "partitions with too many keys"),
    "keys" -> SQLMetrics.createMetric(sparkContext, "distinct keys in the filter"),
    "filterBytes" -> SQLMetrics.createSizeMetric(sparkContext, "size of the filter"),
    "heldBack" -> SQLMetrics.createTimingMetric(sparkContext, "time that scans were held back")
  )
  override protected def doCanonicalize(): SparkPlan = child.canonicalized
  override def nodeName: String = NodeNames(BuildKeyTapExec.Name, taps.map(_.ref.id))
  override def simpleString(maxFields: Int): String =
    s"${BuildKeyTapExec.Name} ${taps.map(t => t.ref.describe(nameOf(t.key))).mkString(", ")}"

  private def nameOf(key: Expression): String = key match {
    case b: BoundReference => output(b.ordinal).name
    case other =>
      other.transform { case b: BoundReference => output(b.ordinal) }.sql
  }

  override protected def doPrepare(): Unit = JobNames.setForQuery(session.sparkContext)

  override protected def doExecute(): RDD[InternalRow] = {
    JobNames.setForQuery(sparkContext)
    val rows = child.execute()
    val partitions = rows.getNumPartitions
    val execution = TaskFilters.executionId(sparkContext)
    val show = Settings.showsValues(conf)
    taps.foreach { t =>
      t.ref.state.record.showValues(show)
      // Before the state starts, because without partitions it is complete at once.
      t.ref.state.record.setMetrics(new TapMetrics(sparkContext, execution, metrics))
      QueryReports.instance.note(session)(_.add(JoinRun(t.ref.state)))
      execution.foreach(JoinWaits.buildStarted(_, t.ref))
    }
    if (execution.isEmpty) {
      taps.foreach(_.ref.state.disable(Reasons.NoExecution))
      rows
    } else if (SparkAccess.determinism(rows) == DeterministicLevel.INDETERMINATE) {
      // A retried task would put other rows into the exchange than those whose keys were collected (contract 5).
      taps.foreach(_.ref.state.disable(Reasons.RandomBuildSide))
      rows
    } else {
      val wanted = taps.filter(_.ref.state.started(partitions))
      val results = SparkAccess.maxResultSize(SparkAccess.confOf(sparkContext))
      val limits = BuildKeyTapExec
        .limits(conf)
        .copy(maxSentBytes = KeyContribution.budget(results, broadcast, math.max(1, wanted.size)))
      val collected = wanted.map { t =>
        val offers = TestHooks.current.keys(execution.get, conf, t.ref.state)
        val accumulator = new ResultItems[KeyContribution](c => offers.offer(c.partition, c.encoded, c.outgrown))
        sparkContext.register(accumulator)
        KeyTapPart(t.ref.domain, t.key, limits, partitions, accumulator)
      }.toArray
      val counts = TapCounts(longMetric("rows"), longMetric("keyBytes"), longMetric("gaveUp"))
      // The partition index of this RDD, which may differ from the task's.
      val tapped =
        new MappedRDD(rows, (i, it: Iterator[InternalRow]) => new KeyTapIterator(it, i, collected, counts))
      execution.foreach(RunningStages.buildStarted(_, tapped.id, wanted.map(_.ref.state)))
      tapped
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): BuildKeyTapExec = copy(child = newChild)
}

object BuildKeyTapExec {

  /** Text of the operator in plans. */
  val Name = "BuildKeys"

  /** The tap below an exchange. Looks through query stages and reused exchanges. */
  def under(p: SparkPlan): Option[BuildKeyTapExec] = p match {
    case r: ReusedExchangeExec => under(r.child)
    case q: ExchangeQueryStageExec => under(q.plan)
    case e: Exchange => e.children.headOption.collect { case t: BuildKeyTapExec => t }
    case _ => None
  }

  /** The taps below an exchange. */
  def tapsUnder(p: SparkPlan): Seq[KeyTap] = under(p).toSeq.flatMap(_.taps)

  /** An exchange with a tap below it.
    *
    * The tap has no link to a logical plan. With a link, adaptive execution would take the tap for its child operator. It would
    * not see that an aggregate without groups is empty. If it then dropped the exchange, the tap would remain in a join's probe
    * side, and a scan would wait for it in vain.
    */
  def under(exchange: Exchange, taps: Seq[KeyTap]): Exchange =
    exchange
      .withNewChildren(
        Seq(BuildKeyTapExec(taps, exchange.children.head, exchange.isInstanceOf[BroadcastExchangeLike]))
      )
      .asInstanceOf[Exchange]

  /** The session's limits for collecting keys. */
  def limits(conf: SQLConf): KeyLimits = KeyLimits(
    Settings.get(conf, Settings.JoinMaxBuildRows),
    Settings.get(conf, Settings.InMaxValues),
    Settings.get(conf, Settings.BloomFpp),
    Settings.get(conf, Settings.MaxFilterBytes)
  )
}

/** The state of a tap's filters as metrics of its operator, summed over the operator's taps. */
private final class TapMetrics(sc: SparkContext, execution: Option[Long], metrics: Map[String, SQLMetric])
    extends JoinRecord.Metrics
    with Logging {
  override def complete(bytes: Int, distinct: Option[Long]): Unit =
    show(Seq(metrics("filterBytes") -> bytes.toLong) ++ distinct.map(metrics("keys") -> _))

  override def waited(millis: Long): Unit = if (millis > 0) show(Seq(metrics("heldBack") -> millis))

  private def show(values: Seq[(SQLMetric, Long)]): Unit =
    try SparkAccess.addOnDriver(sc, execution, values)
    catch { case NonFatal(e) => logWarning("Dynamic filters: a metric is not shown", e) }
}

/** The metrics that a tap's tasks count. */
private final case class TapCounts(rows: SQLMetric, bytes: SQLMetric, gaveUp: SQLMetric)

/** Passes rows on and collects their keys. If collecting fails, the rows still pass; the partition does not report, so the
  * filter is never used.
  */
private final class KeyTapIterator(
    rows: Iterator[InternalRow],
    partition: Int,
    collected: Array[KeyTapPart],
    counts: TapCounts
) extends Iterator[InternalRow]
    with Logging {
  private var passed = 0L
  private var keys: Array[KeyCollection] = guarded(collected.map(new KeyCollection(_)))

  override def hasNext: Boolean = {
    val more = rows.hasNext
    if (!more) {
      counts.rows += passed
      passed = 0
      if (keys != null) {
        val done = keys
        keys = null
        if (TaskContext.get() != null) guarded { finish(done); null }
      }
    }
    more
  }

  /** Frees the memory of each collection before the next one sorts its keys. */
  private def finish(done: Array[KeyCollection]): Unit = done.indices.foreach { i =>
    val contribution = done(i).finish(partition)
    counts.bytes += contribution.encoded.length
    if (contribution.outgrown) counts.gaveUp += 1
    done(i) = null
  }

  override def next(): InternalRow = {
    val row = rows.next()
    passed += 1
    if (keys != null) collect(row)
    row
  }

  private def collect(row: InternalRow): Unit =
    try {
      var i = 0
      while (i < keys.length) { keys(i).add(row); i += 1 }
    } catch { case PluginFailure(e) => stop(e) }

  private def guarded(body: => Array[KeyCollection]): Array[KeyCollection] =
    try body
    catch { case PluginFailure(e) => stop(e); null }

  private def stop(e: Throwable): Unit = {
    keys = null
    logWarning("Dynamic filters: the keys of a join's build side are not collected, its filter will not be used", e)
  }
}
