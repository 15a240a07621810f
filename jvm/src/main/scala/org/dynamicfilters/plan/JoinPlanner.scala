package org.dynamicfilters.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Expression, UserDefinedExpression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.api.{FilterProducer, MatchingRows}
import org.dynamicfilters.filter.KeyDomain
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.operators.BuildKeyTapExec
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.report.{QueryReports, Rejected}
import org.dynamicfilters.scan.Wait
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{JoinRef, Producer}

/** Makes joins filter producers: puts a tap under the exchange of the build side, and the tap's filter into the scans that
  * the probe key comes from. [[DynamicFilterRule]] runs it on each plan.
  *
  * Filters go from one side of a join to the other, never both ways, so scans never wait for each other.
  *
  * Keeps no state between runs of the rule: when adaptive execution plans a join again, the filters in running stages say
  * which one belongs to the join (see [[JoinRef]]).
  *
  * @param plan the whole plan, as far as it is known
  * @param adaptive whether stages are submitted one by one, so that one can be held back
  * @param mayCopy whether an exchange that is used in several places may be filtered for each of them, see
  *   [[ExchangeCopies]]
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
  private val used = mutable.HashSet.empty[Long]
  private val made = mutable.HashMap.empty[(SparkPlan, Expression, Boolean, Seq[Any]), JoinRef]

  // Whether a filter was put below an exchange that other places use too, so that Spark computes a copy.
  private var copied = false

  private val rowValues = new RowValues.InPlan(plan)
  private val showsPartitions = PushDown.whyKeep(plan, _ => false)

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
        noted(j, j.leftKeys ++ j.rightKeys, filteredJoin(j))
      case j: BroadcastNestedLoopJoinExec if FilteredSide.both(j).exists(_.keys.nonEmpty) =>
        noted(j, j.condition.toSeq, filteredJoin(j))
      case j: BaseJoinExec => noted(j, j.condition.toSeq, Left(Reasons.NoEqualKeys))
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
      else {
        val key = JoinKey(m.column, JoinKeys.plain(m.key), m.nullsMatch)
        filteredByEach(p.children(probe), p.children(build), Seq(key), p.expressions).map { sides =>
          p.withNewChildren(p.children.updated(probe, sides.probe).updated(build, sides.build))
        }
      }
    noted(p, Seq(m.column), done)
  }

  /** The filtered operator; or the operator itself, with the reason why it makes no filter. */
  private def noted(p: SparkPlan, keys: Seq[Expression], done: Either[Reason, SparkPlan]): SparkPlan = done match {
    case Right(filtered) =>
      DynamicFilterRule.accept(p)
      filtered
    case Left(reason) =>
      val now = Rejected(Producer.join, keys.flatMap(_.references.map(_.name)).take(1), reason)
      val rejected = DynamicFilterRule.reject(p, now)
      QueryReports.instance.note(p.session)(_.reject(rejected))
      p
  }

  private def filteredJoin(j: BaseJoinExec): Either[Reason, SparkPlan] =
    for {
      side <- runningSide(j).map(Right(_)).getOrElse(JoinSides.choose(j, conf, isHinted))
      sides <- filteredByEach(side.probe, side.build, side.keys, side.evaluated)
    } yield side.withSides(sides.probe, sides.build)

  /** The filtered side, if a running stage of either side has a filter or a tap already. New sizes must not reverse that: both
    * sides would wait for each other.
    */
  private def runningSide(j: BaseJoinExec): Option[FilteredSide] =
    FilteredSide.both(j).find { side =>
      side.isPermitted && side.keys.exists { k =>
        PlannedFilters.running(side.probe, k.origin).isDefined || BuildSides.hasRunningTap(side.build, k)
      }
    }

  /** Filters the probe side by each key.
    *
    * @param computed expressions that the join evaluates for each probe row
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
      new OneKey(sides, key, computed, waits)() match {
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
  private final class OneKey(sides: Sides, key: JoinKey, computed: Seq[Expression], waits: WaitPlanner) {
    private val running = PlannedFilters.running(sides.probe, key.origin)
    private val copies = new ExchangeCopies(sides.build, shared)

    def apply(): Either[Reason, Sides] = {
      val result = for {
        _ <- unlessRunning(key.column)
        _ <- checked
        // Before a tap is planned: a filter that no scan can use must cost nothing.
        _ <- unlessRunning(pushed(at => ScanPlanner.accepts(at, Producer.join).map(_ => at.scan)))
        _ <- Repeatable.keys(sides.build, key.build.references).map(Reasons.BuildSide).toLeft(())
        tapped <- tap
        ref = tapped.ref
        _ = running.foreach(takeKeysFrom(_, ref, tapped.passed))
        _ = if (!used.add(ref.id) || ref.origin != key.origin) ref.usedByOthers()
        newProbe <- pushed(toScan(_, ref)) match {
          case Left(_) if running.isDefined => Right(sides.probe)
          case other => other
        }
      } yield Sides(newProbe, tapped.side)
      result.left.foreach(reason => running.foreach(_.state.disable(Reasons.PlannedAnew(reason))))
      result
    }

    private def unlessRunning(check: => Either[Reason, Any]): Either[Reason, Any] =
      if (running.isDefined) Right(()) else check

    private def pushed(toScan: PushDown.Reached => Either[Reason, SparkPlan]): Either[Reason, SparkPlan] =
      key.column.flatMap { case (column, e) =>
        new PushDown("the join key", computed, reach(copies), toScan)(sides.probe, Seq(column), e)
      }

    private def checked: Either[Reason, Unit] =
      for {
        _ <- Either.cond(key.build.deterministic, (), Reasons.RandomKey)
        // The tap would call it once more for each row.
        _ <- Either.cond(!key.build.exists(_.isInstanceOf[UserDefinedExpression]), (), Reasons.KeyCallsFunction)
        _ <- KeyDomain.forType(key.build.dataType)
        _ <- KeyDomain.forType(key.probe.dataType)
        _ <- Either.cond(
          JoinKeys.comparable(key.build.dataType, key.probe.dataType),
          (),
          Reasons.KeyTypes(key.build.dataType.catalogString, key.probe.dataType.catalogString)
        )
      } yield ()

    /** The build side with a tap for the key. */
    private def tap: Either[Reason, BuildSides.Tapped] =
      // A second tap above a running one would report its keys to the same filter.
      running.filter(BuildSides.hasRunningTap(sides.build, _)) match {
        case Some(ref) => Right(BuildSides.Tapped(sides.build, ref, ref.facts.passed))
        case None =>
          BuildSides.tapped(sides.build, key.build, key.nullsMatch)((e, bound, passed) =>
            running.filter(_.domain.dataType == bound.dataType).getOrElse(make(e, bound, passed))
          )
      }

    private def make(e: Exchange, bound: Expression, passed: Seq[String]): JoinRef = {
      val build = e.canonicalized
      val facts = new PlannedBuildSide(e, passed)
      // If Spark runs each of several equal exchanges, their file listings and random numbers may differ.
      def contents = if (facts.repeats) facts.listed else Seq(System.identityHashCode(e))
      made.getOrElseUpdate(
        (build, bound, key.nullsMatch, if (conf.exchangeReuseEnabled) Nil else contents),
        JoinRef(key.origin, build, bound, key.nullsMatch, BuildKeyTapExec.limits(conf), facts)
      )
    }

    private def toScan(at: PushDown.Reached, ref: JoinRef): Either[Reason, SparkPlan] = {
      val wait =
        if (!at.crossed || !mayWait) Wait.No
        else if (asksForFilters(at.scan)) Wait.UntilReady
        else waits(at.scan)
      for {
        _ <- Either.cond(!copies.isMade || copies.isInTime(adaptive, wait), (), Reasons.UsedTwice)
        done <- ScanPlanner.filtered(at, Seq(ref), conf, wait)
      } yield {
        at.shownNames.foreach(ref.state.record.addColumn)
        done
      }
    }
  }

  /** Gives the filter of a running scan the keys of the tap that is planned now. */
  private def takeKeysFrom(running: JoinRef, tapped: JoinRef, passed: Seq[String]): Unit =
    if (running eq tapped) running.tappedAfter(passed)
    else if (running == tapped) running.state.follow(tapped.state)
    else running.state.disable(Reasons.MovedLater)

  private def reach(copies: ExchangeCopies): PushDown.Reach =
    PushDown.Reach(
      beyondExchange = true,
      (e, columns) =>
        if (!shared.isShared(e)) showsPartitions(e)
        else if (mayCopy && copies.pays(e, columns)) { copied = true; showsPartitions(e) }
        else Some(Reasons.UsedTwice),
      () => showsPosition,
      rowValues.maySeeFewerRows
    )

  /** Whether a hint asks for filters on a scan of that side. */
  private def isHinted(side: FilteredSide): Boolean = side.probe.exists(asksForFilters)
}

object JoinPlanner {

  /** Both sides of a join. */
  private final case class Sides(probe: SparkPlan, build: SparkPlan)

  private def asksForFilters(scan: SparkPlan): Boolean = ScanHint.on(scan).contains(ScanHint.Use)
}
