package org.dynamicfilters.operators

import java.util.{Collections, IdentityHashMap}
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.collection.Map

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.{SQLExecution, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, ExchangeQueryStageExec, QueryStageExec}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.dynamicfilters.exchange.Worker
import org.dynamicfilters.filter.OwnFailure
import org.dynamicfilters.state.{Executions, JoinRef}

/** The exchanges that adaptive execution has made for a query so far, those of its subqueries and of cached tables included.
  *
  * It uses one of them instead of an equal one that it comes to. Main query and subqueries are planned apart, so the one that it
  * uses may have no tap. If that one's rows are there already, it leaves no trace in the plan (Spark 4.1 to 4.3:
  * `AdaptiveSparkPlanExec.createNonResultQueryStages` does not count it as a new stage): what is planned next has the exchange
  * with its tap again, which never runs.
  */
private[operators] final class MadeExchanges(executionId: Long) extends Logging {
  import MadeExchanges._

  // As long as it runs Spark knows it.
  private val query = Option(SQLExecution.getQueryExecution(executionId))

  @volatile private var found: Option[SparkPlan] = None

  private val owners = Collections.synchronizedMap(new IdentityHashMap[FilteredScan, Owner])

  // By filter, since when its tap is in no plan, and when the plans were looked at last.
  private val missing = new ConcurrentHashMap[Long, Missing]

  // With the first look: most waits are over before.
  private lazy val search: Unit = find()

  /** Gives a filter up, or takes another one over, if an exchange without its tap is used instead of that of its build side;
    * gives it up if its tap has gone from the plan.
    *
    * @param scan
    *   of a stage that is held back for it
    * @return
    *   whether to wait on: not where the scan's plan is not known, so that nothing would ever be found
    */
  def look(scan: FilteredScan, ref: JoinRef): Boolean =
    try {
      search
      val owner = owners.computeIfAbsent(scan, _ => new Owner)
      for (whole <- found) {
        if (owner.plan.isEmpty) owner.plan = plans(whole, cached = true).find(isStageOf(scan, _))
        if (!ref.state.hasBegun) owner.plan.foreach(look(_, whole, ref))
      }
      val isSought = query.nonEmpty && found.isEmpty
      isSought || owner.plan.nonEmpty || System.nanoTime() - owner.since < UnknownNanos
    } catch {
      case OwnFailure(e) =>
        logWarning("Dynamic filters: a scan is held back, its build side may not run", e)
        true
    }

  private def look(owner: AdaptiveSparkPlanExec, whole: SparkPlan, ref: JoinRef): Unit =
    used(ref, owner.context.stageCache) match {
      case Used.NotYet => if (isGone(ref, whole)) ref.state.disable(BuildKeyTapExec.PlannedAway)
      case Used.Own =>
      case Used.Like(tap) => ref.state.follow(tap.ref.state)
      case Used.Untapped => ref.state.disable(BuildKeyTapExec.RanWithoutTap)
    }

  /** Whether the scan is known to be of this query alone, and not of a cached table that is being filled, which others than
    * this query may read.
    *
    * Only when the query has ended, because it may not have a plan before.
    */
  def isOwn(scan: FilteredScan): Boolean =
    try query.exists(q => plans(q.executedPlan, cached = false).exists(isStageOf(scan, _)))
    catch { case OwnFailure(_) => false }

  // As Spark looks: before it makes a stage of an exchange, and after.
  private def used(ref: JoinRef, stages: Stages): Used = {
    val stageMade = ref.stageMade
    Option(ref.exchange).flatMap(e => stages.get(e.canonicalized)) match {
      // Exchanges are not to be used again: then Spark notes none.
      case _ if stages.isEmpty => Used.NotYet
      case Some(stage) =>
        BuildKeyTapExec.under(stage).flatMap(_.taps.find(_.ref == ref)) match {
          case Some(tap) if tap.ref eq ref => Used.Own
          case Some(tap) => Used.Like(tap)
          case None => Used.Untapped
        }
      case None if stageMade == 0 || System.nanoTime() - stageMade < EntryNanos => Used.NotYet
      case None =>
        val own = stages.valuesIterator.flatMap(BuildKeyTapExec.under(_)).exists(_.taps.exists(_.ref eq ref))
        if (own) Used.Own else Used.Untapped
    }
  }

  /** Whether no plan has a tap of the filter any more.
    *
    * A plan that turns out to be empty loses its stages, and so the rule does not see that one of them waits. Another plan of
    * the query may use that stage's exchange nevertheless. Twice, because a plan is replaced while others look at it.
    */
  private def isGone(ref: JoinRef, whole: SparkPlan): Boolean = {
    val now = System.nanoTime()
    val last = missing.computeIfAbsent(ref.id, _ => Missing(now, now))
    now - last.looked >= GoneNanos && {
      val isThere = hasTap(whole, ref)
      missing.put(ref.id, Missing(if (isThere) now else last.since, now))
      !isThere && now - last.since >= 2 * GoneNanos
    }
  }

  /** On a thread of its own: a plan that is asked for while it is made blocks whoever asks, and the thread that makes it may be
    * waiting for us.
    */
  private def find(): Unit = {
    val finder = new Thread(
      () =>
        try found = query.map(_.executedPlan)
        catch { case OwnFailure(e) => logWarning("Dynamic filters: the stages of a query are not known", e) },
      Worker.Prefix + "stages"
    )
    finder.setDaemon(true)
    finder.start()
  }
}

private[operators] object MadeExchanges {

  /** Whose stage a scan is in, once that is known, and since when it is looked for, as `System.nanoTime`. */
  private final class Owner {
    val since: Long = System.nanoTime()
    @volatile var plan: Option[AdaptiveSparkPlanExec] = None
  }

  /** As `System.nanoTime`. */
  private final case class Missing(since: Long, looked: Long)

  /** How long the plan of a scan is looked for. A plan may run under the id of a query that it is no part of: that of a streaming
    * batch, which its function's threads inherit.
    */
  private val UnknownNanos = TimeUnit.MILLISECONDS.toNanos(100)

  /** How often the plans are looked at: that takes up to a millisecond. */
  private val GoneNanos = TimeUnit.MILLISECONDS.toNanos(100)

  /** By the canonical form of their exchanges. */
  private type Stages = Map[SparkPlan, ExchangeQueryStageExec]

  /** Which exchange stands for that of a build side. */
  private sealed trait Used
  private object Used {

    /** Its turn has not come. */
    case object NotYet extends Used

    case object Own extends Used

    /** One whose tap collects the same keys. */
    final case class Like(tap: KeyTap) extends Used

    /** One without a tap for these keys: they will not be collected. */
    case object Untapped extends Used
  }

  /** From the last rule over a stage's plan until Spark has noted the stage, more than enough. A pause beyond that costs a
    * filter, nothing else.
    */
  private val EntryNanos = TimeUnit.MILLISECONDS.toNanos(50)

  /** Of an execution that runs. */
  def of(executionId: Long): MadeExchanges =
    Executions.instance
      .attach(executionId, MadeExchanges)(new MadeExchanges(executionId))
      .getOrElse(new MadeExchanges(executionId))

  /** All of a plan as it is now, in stages and in subqueries, each node once: a chain of cached tables that are used twice each
    * would have exponentially many.
    *
    * @param cached
    *   whether plans of cached tables are, which have exchanges of their own
    * @param initial
    *   whether what an adaptive plan was at first is: what has gone from one that turned out empty may still run
    */
  private def all(plan: SparkPlan, cached: Boolean, initial: Boolean): Iterator[SparkPlan] = {
    val seen = Collections.newSetFromMap(new IdentityHashMap[SparkPlan, java.lang.Boolean])
    def below(p: SparkPlan): Seq[SparkPlan] = p.subqueries ++ (p match {
      case a: AdaptiveSparkPlanExec => Option.when(initial)(a.initialPlan) ++: Seq(a.executedPlan)
      case q: QueryStageExec => Seq(q.plan)
      case r: ReusedExchangeExec => Seq(r.child)
      case c: InMemoryTableScanExec if cached => Seq(c.relation.cachedPlan)
      case other => other.children
    })
    def from(p: SparkPlan): Iterator[SparkPlan] =
      if (seen.add(p)) Iterator(p) ++ below(p).iterator.flatMap(from) else Iterator.empty
    from(plan)
  }

  private def plans(p: SparkPlan, cached: Boolean): Iterator[AdaptiveSparkPlanExec] =
    all(p, cached, initial = true).collect { case a: AdaptiveSparkPlanExec => a }

  /** Whether a scan is in a stage of a plan. Spark notes a stage before it runs, or, where exchanges are not to be used again,
    * has it in its plan.
    */
  private def isStageOf(scan: FilteredScan, a: AdaptiveSparkPlanExec): Boolean = {
    def in(stage: QueryStageExec) = stage.plan.exists(_ eq scan)
    a.context.stageCache.valuesIterator.exists(in) || a.executedPlan.exists {
      case q: QueryStageExec => in(q)
      case _ => false
    }
  }

  /** Whether a plan, as it is now, has a tap of the filter, or one that the filter may come to follow: by its hash, because
    * whoever compares filters ties them to each other.
    */
  private def hasTap(p: SparkPlan, ref: JoinRef): Boolean = {
    def isOf(tap: KeyTap) = (tap.ref eq ref) || (tap.ref.hash == ref.hash && !tap.ref.state.hasBegun)
    all(p, cached = true, initial = false).exists {
      case t: BuildKeyTapExec => t.taps.exists(isOf)
      case _ => false
    }
  }
}
