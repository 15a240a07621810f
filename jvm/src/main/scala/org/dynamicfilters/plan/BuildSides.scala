package org.dynamicfilters.plan

import java.util.IdentityHashMap

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{
  Alias, Attribute, AttributeSeq, BindReferences, BoundReference, Expression, NamedExpression, PlanExpression,
  UserDefinedExpression
}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ExchangeQueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.{Exchange, ReusedExchangeExec}
import org.dynamicfilters.operators.{BuildKeyTapExec, FilteredScan, KeyTap, PlanNodes, Tagged}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.state.JoinRef

/** Finds the first exchange of a join's build side, and puts the tap below it that collects the keys (`tapped`). Equal
  * exchanges, of which Spark computes one, get the same taps (`share`). [[JoinPlanner]] uses it. The methods named
  * `record...` tell the filters of a plan what adaptive execution did to their build sides.
  */
object BuildSides {

  /** A build side with a tap.
    *
    * @param passed see [[org.dynamicfilters.state.BuildSideFacts BuildSideFacts]]
    */
  final case class Tapped(side: SparkPlan, ref: JoinRef, passed: Seq[String])

  /** Puts a tap below the first exchange of the build side, or finds the existing one.
    *
    * Below an aggregate, a filter or another join, the tap sees more keys than reach the join, never fewer.
    *
    * @param make makes the filter if the exchange has no tap for the key, from the exchange, the key bound to its
    *   output, and `passed`
    * @param passed see [[org.dynamicfilters.state.BuildSideFacts BuildSideFacts]]: operators between the join and
    *   `plan`
    */
  def tapped(plan: SparkPlan, key: Expression, nullsMatch: Boolean, passed: Seq[String] = Nil)(
      make: (Exchange, Expression, Seq[String]) => JoinRef
  ): Either[Reason, Tapped] = {
    def below(parent: SparkPlan, child: SparkPlan, key: Expression, passing: Option[String] = None) =
      tapped(child, key, nullsMatch, passed ++ passing)(make).map { t =>
        t.copy(side = parent.withNewChildren(parent.children.map(x => if (x eq child) t.side else x)))
      }
    // A stage: a tap can no longer be added.
    def existing(exchange: SparkPlan) =
      tapOf(exchange, bind(key, exchange.output), nullsMatch)
        .map(Tapped(exchange, _, passed))
        .toRight(Reasons.RanWithoutTap)
    plan match {
      case r: ReusedExchangeExec => existing(r)
      // Spark sets a subquery's result in an operator's own expressions, and the key of a tap is not among these.
      case _: Exchange if key.exists(_.isInstanceOf[PlanExpression[_]]) => Left(Reasons.KeyHasSubquery)
      case e: Exchange =>
        val bound = bind(key, e.output)
        val ref = tapOf(e, bound, nullsMatch).getOrElse(make(e, bound, passed))
        Right(Tapped(withTap(e, KeyTap(ref, bound)), ref, passed))
      case q: ExchangeQueryStageExec => existing(q)
      case r: AQEShuffleReadExec => tapped(r.child, key, nullsMatch, passed)(make).map(_.copy(side = r))
      case s: SortExec => below(s, s.child, key)
      case f: FilterExec => below(f, f.child, key, Some("filter"))
      case p: ProjectExec =>
        attribute(key).flatMap(source(p.projectList, _)).flatMap(below(p, p.child, _))
      case a: BaseAggregateExec =>
        attribute(key)
          .flatMap(source(a.resultExpressions, _))
          .flatMap(attribute)
          .flatMap(source(a.groupingExpressions, _))
          .flatMap(below(a, a.child, _))
      case j: joins.BaseJoinExec =>
        attribute(key).flatMap { a =>
          FilteredSide.both(j).find(_.probe.outputSet.contains(a)) match {
            // If not: the other side of an outer join, whose columns may be NULL for rows without a match.
            case Some(side) if JoinSemantics.of(j)(side.isLeft).carries => below(j, side.probe, a, Some("join"))
            case Some(_) => Left(noExchange(j))
            case None => Left(Reasons.KeyOfJoin)
          }
        }
      case other => Left(noExchange(other))
    }
  }

  private def noExchange(plan: SparkPlan): Reason = Reasons.NoExchange(plan.nodeName.trim)

  private def attribute(e: Expression): Either[Reason, Attribute] = e match {
    case a: Attribute => Right(a)
    case other => Left(Reasons.KeyComputed(ExpressionText.withoutValues(other)))
  }

  private def source(list: Seq[NamedExpression], a: Attribute): Either[Reason, Expression] =
    list.find(_.exprId == a.exprId) match {
      case Some(x: Attribute) => Right(x)
      // The tap would call it once more for each row.
      case Some(Alias(x, _)) if x.exists(_.isInstanceOf[UserDefinedExpression]) => Left(Reasons.KeyCallsFunction)
      case Some(Alias(x, _)) if x.deterministic => Right(JoinKeys.plain(x))
      case _ => Left(Reasons.KeyComputed(a.name))
    }

  /** Bound by position and nullable, so that equal exchanges, whose attributes differ, have equal keys. */
  private def bind(key: Expression, output: Seq[Attribute]): Expression =
    BindReferences
      .bindReference(key, AttributeSeq(output))
      .transform { case b: BoundReference => b.copy(nullable = true) }

  private def withTap(e: Exchange, tap: KeyTap): Exchange = BuildKeyTapExec.under(e) match {
    case Some(t) if t.taps.exists(_.collects(tap.key, tap.ref.nullsMatch)) => e
    case Some(t) => e.withNewChildren(Seq(Tagged(t.copy(taps = t.taps :+ tap), t))).asInstanceOf[Exchange]
    case None => BuildKeyTapExec.under(e, Seq(tap))
  }

  private def tapOf(p: SparkPlan, bound: Expression, nullsMatch: Boolean): Option[JoinRef] =
    BuildKeyTapExec.tapsUnder(p).find(_.collects(bound, nullsMatch)).map(_.ref)

  /** Whether a stage of the side has a tap for the key. */
  def hasRunningTap(plan: SparkPlan, key: JoinKey): Boolean = plan match {
    case q: ExchangeQueryStageExec =>
      key.build.references.subsetOf(q.outputSet) &&
      tapOf(q, bind(key.build, q.output), key.nullsMatch).isDefined
    case _: AQEShuffleReadExec | _: SortExec => hasRunningTap(plan.children.head, key)
    case _ => false
  }

  /** Whether a stage of the side has the tap of the filter. */
  def hasRunningTap(side: SparkPlan, ref: JoinRef): Boolean = side.exists {
    case q: adaptive.QueryStageExec => taps(q.plan).exists(_.ref eq ref)
    case _ => false
  }

  /** All taps of a plan, including those in stages. */
  def taps(plan: SparkPlan): Seq[KeyTap] = PlanNodes.withStages(plan).flatMap {
    case t: BuildKeyTapExec => t.taps
    case r: ReusedExchangeExec => BuildKeyTapExec.tapsUnder(r)
    case _ => Nil
  }

  /** The filters whose taps in several places collect different keys, because filters of other joins reduce each place
    * differently. Equal build sides share one filter, and the joins within them are planned after it.
    */
  def narrowedDifferently(plan: SparkPlan): Seq[JoinRef] = {
    val places = PlanNodes.withStages(plan).flatMap {
      case e: Exchange => BuildKeyTapExec.tapsUnder(e).map(_.ref -> e)
      case _ => Nil
    }
    def narrowing(e: Exchange) = filteredScans(e).map(_.map(_.joinFilters.map(_._1.id).toSet).filter(_.nonEmpty))
    val several = places.groupBy(_._1.id).values.filter(_.size > 1)
    several.filter(_.distinctBy { case (_, e) => narrowing(e) }.size > 1).map(_.head._1).toSeq
  }

  /** Records in the filters of a plan the exchanges above their taps. */
  def recordExchanges(plan: SparkPlan): Unit = plan.foreach {
    case e: Exchange => BuildKeyTapExec.tapsUnder(e).foreach(_.ref.exchange = e)
    case _ =>
  }

  /** Records in the filters of a plan which other filters reduce the rows that their taps see. */
  def recordNarrowing(plan: SparkPlan): Unit = {
    val places = for {
      e <- plan.collect { case e: Exchange => e }
      tap <- BuildKeyTapExec.under(e)
    } yield (tap.taps.map(_.ref), filteredScans(e))
    val direct = places
      .flatMap { case (refs, scans) =>
        refs.map(_.id -> scans.flatten.flatMap(_.joinFilters.map(_._1)))
      }
      .groupMap(_._1)(_._2)
      .map { case (id, filters) => id -> filters.flatten }
    places.foreach { case (refs, scans) =>
      val forms = if (scans.forall(_.isEmpty)) Nil else scans.map(_.map(_.canonicalized))
      refs.foreach(ref => ref.narrowedBy(forms, narrowing(ref, direct)))
    }
  }

  /** The filters that reduce a filter's build side, and transitively those that reduce theirs: adaptive execution may change
    * any of them alone.
    */
  private def narrowing(ref: JoinRef, direct: Map[Long, Seq[JoinRef]]): Set[Any] = {
    val seen = mutable.HashMap.empty[Long, JoinRef]
    def visit(r: JoinRef): Unit = direct.getOrElse(r.id, Nil).foreach { by =>
      if (!seen.contains(by.id)) {
        seen(by.id) = by
        visit(by)
      }
    }
    visit(ref)
    // A filter whose tap runs is no longer in the plan. It knows from earlier plans what reduces it.
    seen.valuesIterator.flatMap(by => by.narrowers + by.source).toSet
  }

  /** By leaf of the plan, its filtered scan, if it has one. */
  private def filteredScans(plan: SparkPlan): Seq[Option[FilteredScan]] = plan match {
    case q: adaptive.QueryStageExec => filteredScans(q.plan)
    case f: FilteredScan => Seq(Some(f))
    case leaf if leaf.children.isEmpty => Seq(None)
    case other => other.children.flatMap(filteredScans)
  }

  /** Records in the filters of an exchange that adaptive execution now makes a stage of it. */
  def recordStage(plan: SparkPlan): Unit = plan match {
    case e: Exchange => BuildKeyTapExec.tapsUnder(e).foreach(_.ref.stageMade = System.nanoTime())
    case _ =>
  }

  /** Gives equal exchanges the same taps, also across subqueries: Spark runs only one of them, whichever comes first.
    *
    * Without adaptive execution Spark plans subqueries before the query. The broadcast of dynamic partition pruning does
    * not pass our rule (Spark 4.1 to 4.3: `PlanDynamicPruningFilters`). `ReuseExchangeAndSubquery` later keeps one of two
    * equal exchanges, from either plan. With adaptive execution [[org.dynamicfilters.operators.MadeExchanges]] does this
    * while the query runs.
    */
  def share(plan: SparkPlan, shared: SharedExchanges): SparkPlan = {
    val taps = new IdentityHashMap[SparkPlan, Seq[KeyTap]]
    for {
      alike <- shared.groups(plan.collectWithSubqueries { case e: Exchange => e })
      if alike.exists(BuildKeyTapExec.under(_).isDefined)
      equal <- alike.groupBy(filteredScans(_).map(_.map(_.canonicalized))).values
      exchange <- equal
    } taps.put(exchange, equal.flatMap(BuildKeyTapExec.tapsUnder))
    if (taps.isEmpty) plan
    else
      plan.transformDownWithSubqueries {
        case e: Exchange if taps.containsKey(e) => taps.get(e).foldLeft(e)(withTap)
      }
  }
}
