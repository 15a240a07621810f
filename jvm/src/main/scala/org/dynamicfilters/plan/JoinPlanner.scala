package org.dynamicfilters.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.api.{FilterProducer, MatchingRows}
import org.dynamicfilters.filter.{KeyDomain, Traverse}
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.operators.BuildKeyTapExec
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.report.{QueryReports, Rejected}
import org.dynamicfilters.scan.{ScanPlace, Wait}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{BuildSideFacts, JoinRef, Producer, TaskFilters}

/** Makes joins filter producers: puts a tap under the exchange of the build side, and the tap's filter into the scans that
  * the probe key comes from. [[DynamicFilterRule]] runs it on each plan.
  *
  * Filters go from one side of a join to the other, never both ways, so scans never wait for each other.
  *
  * Keeps no state between runs of the rule: when adaptive execution plans a join again, the filters in running stages say
  * which one belongs to the join (see [[JoinRef]]).
  *
  * @param plan
  *   the whole plan, as far as it is known
  * @param adaptive
  *   whether stages are submitted one by one, so that one can be held back
  * @param mayCopy
  *   whether an exchange that is used in several places may be filtered for each of them, see [[ExchangeCopies]]
  */
final class JoinPlanner(
    plan: SparkPlan,
    conf: SQLConf,
    adaptive: Boolean,
    shared: SharedExchanges,
    mayCopy: Boolean = true
) {
  import JoinPlanner._

  private val mayWait = adaptive && Settings.get(conf, Settings.JoinWaitTimeout) > 0

  /** Whether earlier executions may decide against a filter. */
  private val learns = Settings.get(conf, Settings.GiveUp) < 1
  private val used = mutable.HashSet.empty[Long]
  private val made = mutable.HashMap.empty[(SparkPlan, Expression, Boolean, Seq[Any]), JoinRef]

  def apply(): SparkPlan = {
    val visited = visit(plan)
    val apart = BuildSides.narrowedDifferently(visited)
    if (apart.nonEmpty && copied) new JoinPlanner(plan, conf, adaptive, shared, mayCopy = false)()
    else {
      apart.foreach(_.state.disable(Reasons.NarrowedApart))
      finished(visited)
    }
  }

  private def finished(visited: SparkPlan): SparkPlan = {
    val planned = if (conf.exchangeReuseEnabled) BuildSides.share(visited, shared) else visited
    BuildSides.recordNarrowing(planned)
    if (adaptive) PlannedFilters.disableOrphans(planned)
    planned
  }

  private def visit(p: SparkPlan): SparkPlan = {
    val here = p match {
      case j: BaseJoinExec if j.leftKeys.nonEmpty =>
        filteredJoin(j) match {
          case Right(done) => done
          case Left(reason) => reject(j, j.leftKeys ++ j.rightKeys, reason)
        }
      case j: BaseJoinExec => reject(j, j.condition.toSeq, Reasons.NoEqualKeys)
      case p: FilterProducer =>
        p.neededRows.collect { case m: MatchingRows => m }.foldLeft(p: SparkPlan)(filteredOperator)
      case other => other
    }
    val above = showsPosition
    showsPosition ||= Repeatable.seesPosition(p, rowValues)
    try here.mapChildren(visit)
    finally showsPosition = above
  }

  // Whether the result of an operator above the visited one depends on the position of a row in its partition.
  private var showsPosition = false

  /** Filters one child of a custom operator by the keys of another child. */
  private def filteredOperator(p: SparkPlan, m: MatchingRows): SparkPlan = {
    val probe = p.children.indexWhere(_.outputSet.contains(m.column))
    val build = p.children.indices.indexWhere(i => i != probe && m.key.references.subsetOf(p.children(i).outputSet))
    val done =
      if (probe < 0 || build < 0) Left(Reasons.ColumnAndKey)
      else
        filteredByEach(
          p.children(probe),
          p.children(build),
          Seq(JoinKey(m.column, JoinKeys.plain(m.key), m.nullsMatch)),
          p.expressions
        )
    done match {
      case Right(sides) =>
        DynamicFilterRule.accept(p)
        p.withNewChildren(p.children.updated(probe, sides.probe).updated(build, sides.build))
      case Left(reason) => reject(p, Seq(m.column), reason)
    }
  }

  private def reject(j: SparkPlan, keys: Seq[Expression], reason: Reason): SparkPlan = {
    val now = Rejected(Producer.join, keys.flatMap(_.references.map(_.name)).take(1), reason)
    val rejected = DynamicFilterRule.reject(j, now)
    val execution = j.session.sparkContext.getLocalProperty(TaskFilters.ExecutionIdProperty)
    QueryReports.instance.note(execution, j.session)(_.reject(rejected))
    j
  }

  private def filteredJoin(j: BaseJoinExec): Either[Reason, SparkPlan] =
    for {
      filterLeft <- runningSide(j).map(Right(_)).getOrElse(JoinSides.filterLeft(j, conf, isHinted(j)))
      (probe, build) = if (filterLeft) (j.left, j.right) else (j.right, j.left)
      (probeKeys, buildKeys) = if (filterLeft) (j.leftKeys, j.rightKeys) else (j.rightKeys, j.leftKeys)
      keys = JoinKeys.pairs(probeKeys, buildKeys)
      sides <- filteredByEach(probe, build, keys, probeKeys)
    } yield {
      DynamicFilterRule.accept(j)
      j.withNewChildren(if (filterLeft) Seq(sides.probe, sides.build) else Seq(sides.build, sides.probe))
    }

  /** Whether the left side is filtered, if a running stage of either side has a filter or a tap already. New sizes must not
    * reverse that: both sides would wait for each other.
    */
  private def runningSide(j: BaseJoinExec): Option[Boolean] =
    Seq(true, false).find { filterLeft =>
      val (probe, build) = if (filterLeft) (j.left, j.right) else (j.right, j.left)
      val keys = if (filterLeft) JoinKeys.pairs(j.leftKeys, j.rightKeys) else JoinKeys.pairs(j.rightKeys, j.leftKeys)
      JoinSides.permits(j, filterLeft) &&
      keys.exists(k => PlannedFilters.running(probe, k.origin).isDefined || BuildSides.hasRunningTap(build, k))
    }

  /** Filters the probe side by each key.
    *
    * @param computed
    *   expressions that the join evaluates for each probe row
    * @return
    *   both sides, or why no key gives a filter
    */
  private def filteredByEach(
      probe: SparkPlan,
      build: SparkPlan,
      keys: Seq[JoinKey],
      computed: Seq[Expression]
  ): Either[Reason, Sides] = {
    val waits = new WaitPlanner(probe, build)
    val none: Either[Reason, Sides] = Left(Reasons.NoEqualKeys)
    val (_, done) = keys.foldLeft((Sides(probe, build), none)) { case ((sides, done), key) =>
      filtered(sides, key, computed, waits) match {
        case Right(both) => (both, Right(both))
        // The reason of the first key.
        case Left(reason) => (sides, if (done eq none) Left(reason) else done)
      }
    }
    done
  }

  /** Filters the probe side by one key.
    *
    * If a running stage of the probe side has the filter of this join already, the tap is needed in any case: a reason why no
    * other scan can be filtered does not count then.
    */
  private def filtered(
      sides: Sides,
      key: JoinKey,
      computed: Seq[Expression],
      waits: WaitPlanner
  ): Either[Reason, Sides] = {
    val running = PlannedFilters.running(sides.probe, key.origin)
    val copies = new ExchangeCopies(sides.build, shared)
    val probeColumn = JoinKeys.column(key)
    def unlessRunning(check: => Either[Reason, Any]): Either[Reason, Any] =
      if (running.isDefined) Right(()) else check
    def push(ref: JoinRef): Either[Reason, SparkPlan] =
      probeColumn.flatMap(
        pushDown(sides.probe, _, computed, ref, waits, copies, checksHistory = learns && running.isEmpty)
      ) match {
        case Left(_) if running.isDefined => Right(sides.probe)
        case pushed => pushed
      }
    val result = for {
      _ <- unlessRunning(probeColumn)
      _ <- checked(key)
      // Before a tap is planned: a filter that no scan can use must cost nothing.
      _ <- unlessRunning(probeColumn.flatMap(reachable(sides.probe, _, computed, copies)))
      _ <- repeatableKeys(sides.build, key)
      tapped <- tap(sides.build, key, running)
      ref = tapped.ref
      _ = running.foreach(takeKeysFrom(_, ref, tapped.passed))
      _ = if (!used.add(ref.id) || ref.origin != key.origin) ref.usedByOthers()
      newProbe <- push(ref)
    } yield Sides(newProbe, tapped.side)
    result.left.foreach(reason => running.foreach(_.state.disable(Reasons.PlannedAnew(reason))))
    result
  }

  private def repeatableKeys(build: SparkPlan, key: JoinKey): Either[Reason, Unit] =
    Repeatable
      .keys(build, key.build.references)
      .map(Reasons.BuildSide)
      .toLeft(())

  /** The build side with a tap for the key. */
  private def tap(build: SparkPlan, key: JoinKey, running: Option[JoinRef]): Either[Reason, BuildSides.Tapped] =
    // A second tap above a running one would report its keys to the same filter.
    running.filter(BuildSides.hasRunningTap(build, _)) match {
      case Some(ref) => Right(BuildSides.Tapped(build, ref, ref.passed))
      case None =>
        BuildSides.tapped(build, key.build, key.nullsMatch)((e, bound, passed) =>
          running.filter(_.domain.dataType == bound.dataType).getOrElse(make(build, e, bound, key, passed))
        )
    }

  /** Gives the filter of a running scan the keys of the tap that is planned now. */
  private def takeKeysFrom(running: JoinRef, tapped: JoinRef, passed: Seq[String]): Unit =
    if (running eq tapped) running.tappedAfter(passed)
    else if (running == tapped) running.state.follow(tapped.state)
    else running.state.disable(Reasons.MovedLater)

  private def checked(key: JoinKey): Either[Reason, Unit] =
    for {
      _ <- Either.cond(key.build.deterministic, (), Reasons.RandomKey)
      _ <- KeyDomain.of(key.build.dataType)
      _ <- KeyDomain.of(key.probe.dataType)
      _ <- Either.cond(
        JoinKeys.comparable(key.build.dataType, key.probe.dataType),
        (),
        Reasons.KeyTypes(key.build.dataType.catalogString, key.probe.dataType.catalogString)
      )
    } yield ()

  private def make(
      side: SparkPlan,
      e: Exchange,
      bound: Expression,
      key: JoinKey,
      passed: Seq[String]
  ): JoinRef = {
    val build = e.canonicalized
    val facts = new PlannedBuildSide(side, e)
    val expected = BuildEstimates.estimate(e)
    val limits = BuildKeyTapExec.limits(conf)
    made.getOrElseUpdate(
      // If Spark runs each of several equal exchanges, their file listings and random numbers may differ.
      (build, bound, key.nullsMatch, if (conf.exchangeReuseEnabled) Nil else contents(e, facts)),
      JoinRef(
        // The type at the tap: between tap and join, an integer may be widened.
        KeyDomain.known(bound.dataType),
        key.nullsMatch,
        key.origin,
        build,
        bound,
        limits,
        expected.fold(1.0)(_.selectivity),
        facts,
        passed
      )
    )
  }

  private def contents(e: Exchange, facts: BuildSideFacts): Seq[Any] =
    if (facts.repeats) facts.listed else Seq(System.identityHashCode(e))

  // Whether a filter was put below an exchange that other places use too, so that Spark computes a copy.
  private var copied = false

  private val rowValues = new RowValues.InPlan(plan)
  private val showsPartitions = PushDown.whyKeep(plan, _ => false)

  private def reach(copies: ExchangeCopies): PushDown.Reach =
    PushDown.Reach(
      beyondExchange = true,
      (e, columns) =>
        if (!shared.isShared(e)) showsPartitions(e)
        else if (mayCopy && copies.pays(e, columns)) { copied = true; showsPartitions(e) }
        else Some(Reasons.UsedTwice),
      () => showsPosition,
      allowsComputedKey = true,
      rowValues.maySeeFewerRows
    )

  private def reachable(
      probe: SparkPlan,
      column: (Attribute, Option[Expression]),
      computed: Seq[Expression],
      copies: ExchangeCopies
  ): Either[Reason, Unit] =
    new PushDown(
      "the join key",
      computed,
      reach(copies),
      (scan, cs, crossed, _) => Traverse(cs)(ScanPlanner.accepts(scan, _, crossed)).map(_ => scan)
    )(probe, Seq(column._1), column._2).map(_ => ())

  /** Whether a hint asks for filters on a scan of that side, and one of the keys comes from the scan. */
  private def isHinted(j: BaseJoinExec)(left: Boolean): Boolean = {
    val (probe, keys) =
      if (left) (j.left, JoinKeys.pairs(j.leftKeys, j.rightKeys))
      else (j.right, JoinKeys.pairs(j.rightKeys, j.leftKeys))
    val hinted = new PushDown(
      "the join key",
      if (left) j.leftKeys else j.rightKeys,
      reach(new ExchangeCopies(if (left) j.right else j.left, shared)),
      // No report shows this reason.
      (scan, _, _, _) => Either.cond(asksForFilters(scan), scan, Reasons.NotSmaller)
    )
    probe.exists(asksForFilters) && keys.exists(k =>
      JoinKeys.column(k).exists { case (c, e) => hinted(probe, Seq(c), e).isRight }
    )
  }

  private def pushDown(
      probe: SparkPlan,
      column: (Attribute, Option[Expression]),
      computed: Seq[Expression],
      ref: JoinRef,
      waits: WaitPlanner,
      copies: ExchangeCopies,
      checksHistory: Boolean
  ): Either[Reason, SparkPlan] = {
    def whyUseless(scan: SparkPlan, c: Attribute) =
      if (checksHistory && !asksForFilters(scan)) FilterHistory.whyUseless(ref, scan, c.name) else None
    new PushDown(
      "the join key",
      computed,
      reach(copies),
      (scan, cs, crossed, key) => {
        val wait =
          if (!crossed || !mayWait) Wait.No
          else if (asksForFilters(scan)) Wait.UntilReady
          else waits(scan)
        def isWorthACopy = copies.isInTime(adaptive, wait)
        val place = ScanPlace(crossed, wait)
        val result = whyUseless(scan, cs.head).toLeft(()).flatMap { _ =>
          if (copies.isMade && !isWorthACopy) Left(Reasons.UsedTwice)
          else ScanPlanner.filtered(scan, cs, Seq(ref), place, conf, key)
        }
        result.foreach(_ => cs.foreach(c => ref.state.record.addColumn(c.name)))
        result
      }
    )(probe, Seq(column._1), column._2)
  }
}

object JoinPlanner {

  /** Both sides of a join. */
  private final case class Sides(probe: SparkPlan, build: SparkPlan)

  private def asksForFilters(scan: SparkPlan): Boolean = ScanHint.on(scan).contains(ScanHint.Use)
}
