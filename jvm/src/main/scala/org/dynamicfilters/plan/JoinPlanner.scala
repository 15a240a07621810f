package org.dynamicfilters.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, Expression}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.api.{FilterProducer, MatchingRows}
import org.dynamicfilters.filter.{KeyDomain, Traverse, TuplePart}
import org.dynamicfilters.hints.ScanHint
import org.dynamicfilters.operators.BuildKeyTapExec
import org.dynamicfilters.report.{QueryReports, Rejected}
import org.dynamicfilters.scan.{ScanPlace, Wait}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{BuildSideFacts, JoinRef, Producer, TaskFilters}

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
  * @param mayCopy
  *   whether an exchange that is used in several places may be narrowed in each of them, see [[ExchangeCopies]]
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

  /** Whether what filters did in earlier executions counts. */
  private val learns = Settings.get(conf, Settings.GiveUp) < 1
  private val used = mutable.HashSet.empty[Long]
  private val made = mutable.HashMap.empty[(SparkPlan, Seq[Expression], Seq[Boolean], Seq[Any]), JoinRef]

  def apply(): SparkPlan = {
    val visited = visit(plan)
    val apart = BuildSides.narrowedApart(visited)
    if (apart.nonEmpty && copied) new JoinPlanner(plan, conf, adaptive, shared, mayCopy = false)()
    else {
      apart.foreach(_.state.disable(NarrowedApart))
      shareAndTell(visited)
    }
  }

  private def shareAndTell(visited: SparkPlan): SparkPlan = {
    val planned = if (conf.exchangeReuseEnabled) BuildSides.share(visited, shared) else visited
    BuildSides.tellNarrowing(planned)
    if (adaptive) PlannedFilters.dropOrphans(planned)
    planned
  }

  private def visit(p: SparkPlan): SparkPlan = {
    val here = p match {
      case j: BaseJoinExec if j.leftKeys.nonEmpty =>
        filteredJoin(j) match {
          case Right(done) => done
          case Left(reason) => reject(j, j.leftKeys ++ j.rightKeys, reason)
        }
      case j: BaseJoinExec => reject(j, j.condition.toSeq, "the join has no equal keys")
      case p: FilterProducer => p.neededRows.collect { case m: MatchingRows => m }.foldLeft(p: SparkPlan)(matching)
      case other => other
    }
    val above = showsPlace
    showsPlace ||= Repeatable.seesPlace(p, rowValues)
    try here.mapChildren(visit)
    finally showsPlace = above
  }

  // Whether an operator above the one that is visited shows the place of a row among others.
  private var showsPlace = false

  /** Filters one child of a custom operator by the keys of another. */
  private def matching(p: SparkPlan, m: MatchingRows): SparkPlan = {
    val probe = p.children.indexWhere(_.outputSet.contains(m.column))
    val build = p.children.indices.indexWhere(i => i != probe && m.key.references.subsetOf(p.children(i).outputSet))
    val done =
      if (probe < 0 || build < 0) Left("the operator's column and key do not come from two of its children")
      else
        filteredByEach(
          p.children(probe),
          p.children(build),
          Seq(JoinKey(m.column, JoinKeys.plain(m.key), m.nullsMatch)),
          p.expressions
        )
    done match {
      case Right((sides, _)) =>
        DynamicFilterRule.accept(p, DynamicFilterRule.RejectedTag)
        p.withNewChildren(p.children.updated(probe, sides.probe).updated(build, sides.build))
      case Left(reason) => reject(p, Seq(m.column), reason)
    }
  }

  private def reject(j: SparkPlan, keys: Seq[Expression], reason: String): SparkPlan =
    reject(j, Rejected(Producer.join, names(keys).take(1), reason), DynamicFilterRule.RejectedTag)

  private def reject(j: SparkPlan, now: Rejected, tag: TreeNodeTag[Rejected]): SparkPlan = {
    val rejected = DynamicFilterRule.reject(j, now, tag)
    val execution = j.session.sparkContext.getLocalProperty(TaskFilters.ExecutionIdProperty)
    QueryReports.instance.note(execution, j.session)(_.reject(rejected))
    j
  }

  private def filteredJoin(j: BaseJoinExec): Either[String, SparkPlan] =
    for {
      filterLeft <- decided(j).map(Right(_)).getOrElse(JoinSides.filterLeft(j, conf, wanted(j)))
      (probe, build) = if (filterLeft) (j.left, j.right) else (j.right, j.left)
      (probeKeys, buildKeys) = if (filterLeft) (j.leftKeys, j.rightKeys) else (j.rightKeys, j.leftKeys)
      keys = JoinKeys.of(probeKeys, buildKeys)
      done <- filteredByEach(probe, build, keys, probeKeys)
      (sides, noTuples) = done
    } yield {
      DynamicFilterRule.accept(j, DynamicFilterRule.RejectedTag)
      noTuples match {
        case Some(reason) =>
          reject(j, Rejected(Producer.join, names(keys.map(_.probe)), reason), DynamicFilterRule.RejectedTupleTag)
        case None => DynamicFilterRule.accept(j, DynamicFilterRule.RejectedTupleTag)
      }
      j.withNewChildren(if (filterLeft) Seq(sides.probe, sides.build) else Seq(sides.build, sides.probe))
    }

  /** Which side is filtered, if that has been decided: once one side runs with a filter or a tap, sizes that turn out otherwise
    * must not turn the filter round. Both sides would wait for each other.
    */
  private def decided(j: BaseJoinExec): Option[Boolean] =
    Seq(true, false).find { filterLeft =>
      val (probe, build) = if (filterLeft) (j.left, j.right) else (j.right, j.left)
      val keys = if (filterLeft) JoinKeys.of(j.leftKeys, j.rightKeys) else JoinKeys.of(j.rightKeys, j.leftKeys)
      JoinSides.permits(j, filterLeft) &&
      keys.exists(k => PlannedFilters.carried(probe, k.origin).isDefined || BuildSides.hasRunningTap(build, k))
    }

  /** Filters the probe side by each of the keys, and by the tuples of all.
    *
    * @param computed
    *   what the join computes of each row of the probe side
    * @return
    *   both sides, and why tuples of several keys give no filter if they do not; or why no key gives a filter
    */
  private def filteredByEach(
      probe: SparkPlan,
      build: SparkPlan,
      keys: Seq[JoinKey],
      computed: Seq[Expression]
  ): Either[String, (Sides, Option[String])] = {
    var sides = Sides(probe, build)
    // The same for all keys.
    val waits = new WaitPlanner(probe, build)
    // Tuples need the filter of each of their keys.
    val alone = keys.size == 1 && learns
    def add(keys: Seq[JoinKey], columns: Seq[JoinRef]): Either[String, JoinRef] =
      filtered(sides, keys, columns, computed, waits, alone).map { case (done, ref) =>
        sides = done
        ref
      }
    // A fixed order, because Spark may reorder the keys when it plans anew.
    val ordered = keys.sortBy(_.origin)
    val columns = keys.map(k => k -> add(Seq(k), Nil)).toMap
    if (columns.values.exists(_.isRight)) {
      val noTuples =
        if (keys.size < 2) None
        else Traverse(ordered)(columns(_)).flatMap(add(ordered, _)).left.toOption
      Right((sides, noTuples))
    } else Left(keys.headOption.flatMap(columns(_).left.toOption).getOrElse("the join has no equal keys"))
  }

  /** Filters the probe side by one key, or by the tuples of several.
    *
    * @param columns
    *   by key of several, the filter of that key alone
    * @param computed
    *   see [[filteredByEach]]
    * @param waits
    *   of scans without a hint
    * @param alone
    *   whether the filter of a single key is not made where it was useless before
    */
  private def filtered(
      sides: Sides,
      keys: Seq[JoinKey],
      columns: Seq[JoinRef],
      computed: Seq[Expression],
      waits: WaitPlanner,
      alone: Boolean
  ): Either[String, (Sides, JoinRef)] = {
    val running = PlannedFilters.carried(sides.probe, originOf(keys))
    val copies = new ExchangeCopies(sides.build, shared)
    val result = for {
      attributes <- Traverse(keys)(JoinKeys.column)
        .map(Some(_))
        .left
        .flatMap(reason => if (running.isDefined) Right(None) else Left(reason))
      parts <- Traverse(keys)(part)
      // First of all, so that a filter that no scan can use costs nothing.
      _ <- attributes.filter(_ => running.isEmpty).map(reachable(sides.probe, _, computed, copies)).getOrElse(Right(()))
      _ <- Repeatable
        .keys(sides.build, AttributeSet.fromAttributeSets(keys.map(_.build.references)))
        .toLeft(())
        .left
        .map(r => s"the build side: $r")
      tapped <- running
        // With a second tap, above the stage's, the keys would be those of both.
        .filter(BuildSides.hasRunningTap(sides.build, _))
        .map(r => Right(BuildSides.Tapped(sides.build, r, r.passed)))
        .getOrElse(
          BuildSides.tapped(sides.build, keys.map(_.build), keys.map(_.nullsMatch))((e, bound, passed) =>
            running.filter(_.isOf(bound)).getOrElse(make(sides.build, e, bound, keys, parts, columns, passed))
          )
        )
      BuildSides.Tapped(newBuild, ref, passed) = tapped
      _ = running.foreach(takes(_, ref, passed))
      _ = if (!used.add(ref.id) || ref.origin != originOf(keys)) ref.usedByOthers()
      newProbe <- attributes
        .map(push(sides.probe, _, computed, ref, waits, copies, mayBeUseless = alone && running.isEmpty))
        .getOrElse(Right(sides.probe))
        .left
        .flatMap { reason =>
          if (running.isDefined) Right(sides.probe) else Left(reason)
        }
    } yield (Sides(newProbe, newBuild), ref)
    if (result.isLeft) running.foreach(_.state.disable(s"planned anew: ${result.swap.getOrElse("")}"))
    result
  }

  /** A filter that a scan has already gets the keys of this tap. */
  private def takes(running: JoinRef, tapped: JoinRef, passed: Seq[String]): Unit =
    if (running eq tapped) running.tappedAfter(passed)
    else if (running == tapped) running.state.follow(tapped.state)
    else running.state.disable(JoinRef.MovedLater)

  private def part(key: JoinKey): Either[String, TuplePart] =
    for {
      _ <- Either.cond(key.build.deterministic, (), "the build key is not deterministic")
      domain <- KeyDomain.of(key.build.dataType)
      _ <- KeyDomain.of(key.probe.dataType)
      _ <- Either.cond(
        JoinKeys.comparable(key.build.dataType, key.probe.dataType),
        (),
        s"keys of types ${key.build.dataType.catalogString} and ${key.probe.dataType.catalogString} are not compared"
      )
    } yield TuplePart(domain, key.nullsMatch)

  private def make(
      side: SparkPlan,
      e: Exchange,
      bound: Seq[Expression],
      keys: Seq[JoinKey],
      joined: Seq[TuplePart],
      columns: Seq[JoinRef],
      passed: Seq[String]
  ): JoinRef = {
    val build = e.canonicalized
    val parts = joined.zip(bound).map { case (p, key) => p.copy(domain = collected(key)) }.toIndexedSeq
    val facts = new PlannedBuildSide(side, e)
    val expected = BuildEstimates.of(e)
    val limits = BuildKeyTapExec.limits(conf)
    made.getOrElseUpdate(
      // Where Spark runs equal exchanges each by itself, they may know other files of a folder, or draw other numbers.
      (build, bound, parts.map(_.nullsMatch), if (conf.exchangeReuseEnabled) Nil else contents(e, facts)),
      JoinRef(
        parts,
        originOf(keys),
        build,
        bound,
        limits,
        columns,
        expected.fold(1.0)(_.selectivity),
        facts,
        passed
      )
    )
  }

  private def contents(e: Exchange, facts: BuildSideFacts): Seq[Any] =
    if (facts.repeats) facts.listed else Seq(System.identityHashCode(e))

  /** The type of a key where it is collected: an integer may be widened between that and the join. */
  private def collected(key: Expression): KeyDomain =
    KeyDomain.of(key.dataType).fold(why => throw new IllegalStateException(why), identity)

  // Whether a filter goes into an exchange that is used elsewhere.
  private var copied = false

  private val rowValues = new RowValues.Of(plan)
  private val showsPartitions = PushDown.keepsWhole(plan, _ => false)

  private def reach(copies: ExchangeCopies): PushDown.Reach =
    PushDown.Reach(
      beyondExchange = true,
      (e, columns) =>
        if (!shared(e)) showsPartitions(e)
        else if (mayCopy && copies.pays(e, columns)) { copied = true; showsPartitions(e) }
        else Some(PushDown.UsedTwice),
      () => showsPlace,
      rowValues.mayBelow
    )

  private def reachable(
      probe: SparkPlan,
      columns: Seq[Attribute],
      computed: Seq[Expression],
      copies: ExchangeCopies
  ): Either[String, Unit] =
    new PushDown(
      "the join key",
      computed,
      reach(copies),
      (scan, cs, crossed) => Traverse(cs)(ScanPlanner.accepts(scan, _, crossed)).map(_ => scan)
    )(probe, columns).map(_ => ())

  /** Whether a side has a scan for which a hint asks for filters, and one of the keys comes from it. */
  private def wanted(j: BaseJoinExec)(left: Boolean): Boolean = {
    val (probe, keys) =
      if (left) (j.left, JoinKeys.of(j.leftKeys, j.rightKeys)) else (j.right, JoinKeys.of(j.rightKeys, j.leftKeys))
    val hinted = new PushDown(
      "the join key",
      if (left) j.leftKeys else j.rightKeys,
      reach(new ExchangeCopies(if (left) j.right else j.left, shared)),
      (scan, _, _) => Either.cond(asksForFilters(scan), scan, "")
    )
    probe.exists(asksForFilters) && keys.exists(k => JoinKeys.column(k).exists(c => hinted(probe, Seq(c)).isRight))
  }

  private def push(
      probe: SparkPlan,
      columns: Seq[Attribute],
      computed: Seq[Expression],
      ref: JoinRef,
      waits: WaitPlanner,
      copies: ExchangeCopies,
      mayBeUseless: Boolean
  ): Either[String, SparkPlan] = {
    def whyUseless(scan: SparkPlan, c: Attribute) =
      if (mayBeUseless && !asksForFilters(scan)) FilterHistory.why(ref, scan, c.name) else None
    new PushDown(
      "the join key",
      computed,
      reach(copies),
      (scan, cs, crossed) => {
        // Asked once: each question may be the one after which the filter is tried again.
        lazy val waitedInVain = learns && FilterHistory.isNotWorthWaiting(ref, scan, cs.head.name)
        val wait =
          if (!crossed || !mayWait) Wait.No
          else if (asksForFilters(scan)) Wait.UntilReady
          else if (!ref.isTuple && waitedInVain) Wait.No
          else waits(scan)
        def isWorthACopy = copies.isInTime(adaptive, wait) && !waitedInVain
        val place = ScanPlace(crossed, wait)
        val result = whyUseless(scan, cs.head).toLeft(()).flatMap { _ =>
          if (copies.isMade && !isWorthACopy) Left(PushDown.UsedTwice)
          else if (ref.isTuple) ScanPlanner.filteredByTuples(scan, cs, ref, place)
          else ScanPlanner.filtered(scan, cs, Seq(ref), place, conf)
        }
        result.foreach(_ => cs.foreach(c => ref.state.addColumn(c.name)))
        result
      }
    )(probe, columns)
  }
}

object JoinPlanner {
  private val NarrowedApart = "other filters narrow its build side differently in each place that it is for"

  /** Both sides of a join. */
  private final case class Sides(probe: SparkPlan, build: SparkPlan)

  private def asksForFilters(scan: SparkPlan): Boolean = ScanHint.on(scan).contains(ScanHint.Use)

  private def originOf(keys: Seq[JoinKey]): String = keys.map(_.origin).mkString(" AND ")

  private def names(keys: Seq[Expression]): Seq[String] = keys.flatMap(_.references.map(_.name)).distinct
}
