package org.dynamicfilters.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.Settings
import org.dynamicfilters.exchange.{JoinRef, TaskFilters}
import org.dynamicfilters.filter.KeyDomain
import org.dynamicfilters.produce.BuildKeyTapExec
import org.dynamicfilters.report.{QueryReports, Rejected}
import org.dynamicfilters.scan.ScanPlace

/** Makes joins producers: a tap under the exchange of the build side, and its filter in the scans that the probe key comes from.
  *
  * Filters go from one side of a join to the other, never both ways, so scans that wait for filters never wait for each other.
  *
  * Stateless: adaptive execution plans again and again, and what it finds in the stages that run already says which filter
  * belongs to which join (see [[JoinRef]]).
  *
  * @param plan
  *   the whole plan, as far as it is known
  * @param adaptive
  *   whether stages are submitted one by one, so that one can be held back
  */
final class JoinPlanner(plan: SparkPlan, conf: SQLConf, adaptive: Boolean) {
  import JoinPlanner._

  private val mayWait = adaptive && Settings.get(conf, Settings.JoinWaitTimeout) > 0
  private val made = mutable.HashMap.empty[(SparkPlan, Expression, Boolean), JoinRef]
  private lazy val timesUsed: Map[SparkPlan, Int] =
    plan
      .collect { case e: Exchange => e.canonicalized; case q: QueryStageExec => q.canonicalized }
      .groupBy(identity)
      .map { case (c, same) =>
        c -> same.size
      }

  def apply(): SparkPlan = {
    val planned = BuildSides.share(visit(plan))
    if (adaptive) dropOrphans(planned)
    planned
  }

  private def visit(p: SparkPlan): SparkPlan = {
    val here = p match {
      case j: BaseJoinExec if j.leftKeys.nonEmpty =>
        filtered(j) match {
          case Right(done) => done
          case Left(reason) => reject(j, j.leftKeys ++ j.rightKeys, reason)
        }
      case j: BaseJoinExec => reject(j, j.condition.toSeq, "the join has no equal keys")
      case other => other
    }
    here.mapChildren(visit)
  }

  private def reject(j: BaseJoinExec, keys: Seq[Expression], reason: String): SparkPlan = {
    val now = Rejected("join", keys.flatMap(_.references.map(_.name)).distinct.take(1), reason)
    // When its sides run there is nothing left to plan; the reason is what was found before. The logical join is what stays
    // of a join when it is planned anew.
    val rejected =
      if (!Running.contains(reason)) now
      else j.logicalLink.flatMap(_.getTagValue(DynamicFilterRule.RejectedTag)).getOrElse(now)
    j.logicalLink.foreach(_.setTagValue(DynamicFilterRule.RejectedTag, rejected))
    val execution = j.session.sparkContext.getLocalProperty(TaskFilters.ExecutionIdProperty)
    QueryReports.instance.note(execution, j.session)(_.reject(rejected))
    j.setTagValue(DynamicFilterRule.RejectedTag, rejected)
    j
  }

  private def filtered(j: BaseJoinExec): Either[String, SparkPlan] =
    for {
      filterLeft <- decided(j).map(Right(_)).getOrElse(JoinSides.filterLeft(j, conf))
      (probe, build) = if (filterLeft) (j.left, j.right) else (j.right, j.left)
      (probeKeys, buildKeys) = if (filterLeft) (j.leftKeys, j.rightKeys) else (j.rightKeys, j.leftKeys)
      done <- filtered(probe, build, JoinKeys.of(probeKeys, buildKeys))
    } yield j.withNewChildren(if (filterLeft) Seq(done._1, done._2) else Seq(done._2, done._1))

  /** Which side is filtered, if that has been decided: once one side runs with a filter or a tap, sizes that turn out otherwise
    * must not turn the filter round. Both sides would wait for each other.
    */
  private def decided(j: BaseJoinExec): Option[Boolean] =
    Seq(true, false).find { filterLeft =>
      val (probe, build) = if (filterLeft) (j.left, j.right) else (j.right, j.left)
      val keys = if (filterLeft) JoinKeys.of(j.leftKeys, j.rightKeys) else JoinKeys.of(j.rightKeys, j.leftKeys)
      JoinSides.permits(j, filterLeft) &&
      keys.exists(k => carried(probe, k).isDefined || BuildSides.hasRunningTap(build, k.build))
    }

  /** @return
    *   probe and build side, or why no key gives a filter
    */
  private def filtered(
      probe: SparkPlan,
      build: SparkPlan,
      keys: Seq[JoinKey]
  ): Either[String, (SparkPlan, SparkPlan)] = {
    var sides = (probe, build)
    val outcomes = keys.map { key =>
      val outcome = filtered(sides._1, sides._2, key)
      outcome.foreach(sides = _)
      outcome
    }
    if (outcomes.exists(_.isRight)) Right(sides) else outcomes.headOption.getOrElse(Left("the join has no equal keys"))
  }

  private def filtered(probe: SparkPlan, build: SparkPlan, key: JoinKey): Either[String, (SparkPlan, SparkPlan)] = {
    val running = carried(probe, key)
    val result = for {
      column <- JoinKeys
        .column(key)
        .map(Some(_))
        .left
        .flatMap(reason => if (running.isDefined) Right(None) else Left(reason))
      _ <- Either.cond(key.build.deterministic, (), "the build key is not deterministic")
      domain <- KeyDomain.of(key.build.dataType)
      _ <- KeyDomain.of(key.probe.dataType)
      _ <- Either.cond(
        JoinKeys.comparable(key.build.dataType, key.probe.dataType),
        (),
        s"keys of types ${key.build.dataType.catalogString} and ${key.probe.dataType.catalogString} are not compared"
      )
      // First of all, so that a filter that no scan can use costs nothing.
      _ <- column.filter(_ => running.isEmpty).map(reachable(probe, _)).getOrElse(Right(()))
      _ <- Repeatable.keys(build).toLeft(()).left.map(r => s"the build side: $r")
      tapped <- BuildSides.tapped(build, key.build)((e, bound) => Right(running.getOrElse(make(e, bound, key, domain))))
      (newBuild, ref) = tapped
      _ = running.filterNot(_ eq ref).foreach(_.state.follow(ref.state))
      newProbe <- column.map(push(probe, _, ref)).getOrElse(Right(probe)).left.flatMap { reason =>
        if (running.isDefined) Right(probe) else Left(reason)
      }
    } yield (newProbe, newBuild)
    if (result.isLeft) running.foreach(_.state.disable(s"planned anew: ${result.swap.getOrElse("")}"))
    result
  }

  private def make(e: Exchange, bound: Expression, key: JoinKey, domain: KeyDomain): JoinRef = {
    val build = e.canonicalized
    made.getOrElseUpdate(
      (build, bound, key.nullsMatch),
      JoinRef(domain, key.nullsMatch, key.origin, build, bound, BuildKeyTapExec.limits(e))
    )
  }

  private val reach = PushDown.Reach(beyondExchange = true, e => timesUsed.getOrElse(e.canonicalized, 0) > 1)

  private def reachable(probe: SparkPlan, column: Attribute): Either[String, Unit] =
    new PushDown("the join key", reach, (scan, c, _) => ScanPlanner.accepts(scan, c).map(_ => scan))(probe, column)
      .map(_ => ())

  private def push(probe: SparkPlan, column: Attribute, ref: JoinRef): Either[String, SparkPlan] =
    new PushDown(
      "the join key",
      reach,
      (scan, c, crossed) => {
        val result = ScanPlanner.filtered(scan, c, ref, ScanPlace(crossed, waits = crossed && mayWait), conf)
        result.foreach(_ => ref.state.addColumn(c.name))
        result
      }
    )(probe, column)
}

object JoinPlanner {

  /** Reasons that say only that planning comes too late. */
  private val Running = Set(PushDown.RunsAlready, BuildSides.RanWithoutTap)

  /** The filter of this join's key in a scan of the probe side that runs already. */
  private def carried(probe: SparkPlan, key: JoinKey): Option[JoinRef] =
    scans(probe, running = false).iterator.flatMap(_.spec.columns.map(_.ref)).collectFirst {
      case j: JoinRef if j.origin == key.origin => j
    }

  /** Filtered scans in stages that run or have run. */
  private def scans(plan: SparkPlan, running: Boolean): Seq[DynamicFilterScanExec] = plan match {
    case q: QueryStageExec => scans(q.plan, running = true)
    case d: DynamicFilterScanExec if running => Seq(d)
    case other => other.children.flatMap(scans(_, running))
  }

  /** Gives up filters that scans wait for and whose build side adaptive execution has planned away. */
  private def dropOrphans(plan: SparkPlan): Unit = {
    val waitedFor = scans(plan, running = false).flatMap(_.spec.columns).filter(_.place.waits).map(_.ref).collect {
      case j: JoinRef => j
    }
    if (waitedFor.nonEmpty) {
      val tapped = BuildSides.taps(plan).map(_.ref.id).toSet
      waitedFor.filterNot(r => tapped.contains(r.id) || r.state.isFollower).foreach { r =>
        r.state.disable("adaptive execution planned the build side away")
      }
    }
  }
}
