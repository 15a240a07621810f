package org.dynamicfilters.operators

import java.util.{Collections, IdentityHashMap}
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.{SQLExecution, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.dynamicfilters.exchange.Worker
import org.dynamicfilters.filter.PluginFailure
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state.{Executions, JoinRef}

/** The exchanges that adaptive execution has made for a query so far, including those of subqueries and cached tables. While a
  * scan waits for a filter, [[FilteredScan]] looks here whether the filter's tap can still run.
  *
  * Adaptive execution reuses an equal exchange that it has made. Main query and subqueries are planned separately, so the reused
  * exchange may have no tap. If it is materialized already, re-planning does not show the reuse (Spark 4.1 to 4.3:
  * `AdaptiveSparkPlanExec.createNonResultQueryStages` does not count it as a new stage): the next plan has the exchange with its
  * tap again, which never runs.
  */
private[operators] final class MadeExchanges(executionId: Long) extends Logging {
  import MadeExchanges._

  // Spark knows running executions only.
  private val query = Option(SQLExecution.getQueryExecution(executionId))

  @volatile private var found: Option[SparkPlan] = None

  private val owners = Collections.synchronizedMap(new IdentityHashMap[FilteredScan, Owner])
  // Since when the tap of a filter is in no plan, as `System.nanoTime`.
  private val missing = new ConcurrentHashMap[Long, Long]

  // Started by the first look: most waits end before it.
  private lazy val search: Unit = find()

  /** Disables a filter whose tap will not run, or lets it follow the filter of the exchange that Spark reuses instead.
    *
    * @param scan a scan that waits for the filter
    * @return whether to wait on: false if the plan of the scan is not found, so that nothing would ever end the wait
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
      case PluginFailure(e) =>
        logWarning("Dynamic filters: a scan is held back, its build side may not run", e)
        true
    }

  // Looks up the exchange in the stage cache, as Spark does before and after it makes a stage of it. Without exchange reuse,
  // Spark keeps no stage cache.
  private def look(owner: AdaptiveSparkPlanExec, whole: SparkPlan, ref: JoinRef): Unit = {
    val stageMade = ref.stageMade
    val stages = owner.context.stageCache
    def isEntered = stageMade > 0 && System.nanoTime() - stageMade >= EntryNanos
    Option(ref.exchange).flatMap(e => stages.get(e.canonicalized)) match {
      case Some(stage) =>
        BuildKeyTapExec.tapsUnder(stage).find(_.ref == ref) match {
          case Some(tap) => if (tap.ref ne ref) ref.state.follow(tap.ref.state)
          case None => ref.state.disable(Reasons.RanWithoutTap)
        }
      case None if stages.nonEmpty && isEntered =>
        val taps = stages.valuesIterator.flatMap(BuildKeyTapExec.tapsUnder)
        if (!taps.exists(_.ref eq ref)) ref.state.disable(Reasons.RanWithoutTap)
      case None => if (isGone(ref, whole)) ref.state.disable(Reasons.PlannedAway)
    }
  }

  /** Whether the scan belongs to this query alone, and not to a cached table that other queries may read too.
    *
    * Asked only after the query has ended, because it may not have a plan before.
    */
  def isOwn(scan: FilteredScan): Boolean =
    try query.exists(q => plans(q.executedPlan, cached = false).exists(isStageOf(scan, _)))
    catch { case PluginFailure(_) => false }

  /** Whether no plan has a tap of the filter any more, for some time: a plan may be replaced between reading two of its parts.
    *
    * Adaptive execution drops the stages of a plan that turns out empty, so the planner rule does not see that one of them waits.
    * Another plan of the query may still use the stage's exchange.
    */
  private def isGone(ref: JoinRef, whole: SparkPlan): Boolean = {
    val now = System.nanoTime()
    val isThere = hasTap(whole, ref)
    if (isThere) missing.remove(ref.id)
    !isThere && now - missing.computeIfAbsent(ref.id, _ => now) >= GoneNanos
  }

  /** Asks for the executed plan in a separate thread: that blocks while another thread makes the plan, which may wait for this
    * one.
    */
  private def find(): Unit = {
    val finder = new Thread(
      () =>
        try found = query.map(_.executedPlan)
        catch { case PluginFailure(e) => logWarning("Dynamic filters: the stages of a query are not known", e) },
      Worker.Prefix + "stages"
    )
    finder.setDaemon(true)
    finder.start()
  }
}

private[operators] object MadeExchanges {

  /** The adaptive plan of a scan, once it is found, and the start of the search, as `System.nanoTime`. */
  private final class Owner {
    val since: Long = System.nanoTime()
    @volatile var plan: Option[AdaptiveSparkPlanExec] = None
  }

  /** How long the plan of a scan is looked for. A scan may run under the id of a query that does not contain it: threads of a
    * streaming batch's function inherit the id of the batch.
    */
  private val UnknownNanos = TimeUnit.MILLISECONDS.toNanos(100)

  /** After this time a tap that is in no plan does not come back. */
  private val GoneNanos = TimeUnit.MILLISECONDS.toNanos(200)

  /** Upper limit for the time between the last rule over a stage's plan and its entry in the stage cache. If a pause makes it
    * longer, the filter is disabled.
    */
  private val EntryNanos = TimeUnit.MILLISECONDS.toNanos(50)

  /** The exchanges of a running execution. */
  def ofExecution(executionId: Long): MadeExchanges =
    Executions.instance
      .attach(executionId, MadeExchanges)(new MadeExchanges(executionId))
      .getOrElse(new MadeExchanges(executionId))

  private def plans(p: SparkPlan, cached: Boolean): Iterator[AdaptiveSparkPlanExec] =
    PlanNodes.everywhere(p, cached, initial = true).collect { case a: AdaptiveSparkPlanExec => a }

  /** Whether a scan is in a stage of a plan: in the stage cache, or, without exchange reuse, in the plan itself. */
  private def isStageOf(scan: FilteredScan, a: AdaptiveSparkPlanExec): Boolean = {
    def in(stage: QueryStageExec) = stage.plan.exists(_ eq scan)
    a.context.stageCache.valuesIterator.exists(in) || a.executedPlan.exists {
      case q: QueryStageExec => in(q)
      case _ => false
    }
  }

  /** Whether a plan has a tap of the filter, or of an equal one that it may follow later. Compares hashes, because comparing two
    * filters by `==` restricts both from then on (see `compared` in [[JoinRef]]).
    */
  private def hasTap(p: SparkPlan, ref: JoinRef): Boolean = {
    def isOf(tap: KeyTap) = (tap.ref eq ref) || (tap.ref.hash == ref.hash && !tap.ref.state.hasBegun)
    PlanNodes.everywhere(p, cached = true, initial = false).exists {
      case t: BuildKeyTapExec => t.taps.exists(isOf)
      case _ => false
    }
  }
}
