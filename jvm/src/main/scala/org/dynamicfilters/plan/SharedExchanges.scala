package org.dynamicfilters.plan

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningExpression, Expression, Literal}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, BroadcastQueryStageExec, QueryStageExec}
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, Exchange, ReusedExchangeExec}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{BooleanType, DataType}
import org.dynamicfilters.operators.{
  BuildKeyTapExec,
  CachedScanExec,
  DynamicFilterScanExec,
  RowFilteredScanExec,
  TopKTapExec
}

/** Which exchanges of a plan Spark computes once for several places: narrowed for one of them, they could not be used for the
  * others.
  *
  * Places in subqueries count too, scalar ones and those of dynamic partition pruning. When a subquery itself is planned, the
  * query around it is not known: an exchange that is narrowed there is computed once more for the query.
  *
  * @param plan
  *   the whole plan, as far as it is known
  */
final class SharedExchanges(plan: SparkPlan, conf: SQLConf) {
  import SharedExchanges._

  private val id = ids.incrementAndGet()
  private lazy val all: Seq[SparkPlan] = withSubqueries(plan)
  private lazy val pruning: Set[SparkPlan] = all.collect { case s: SubqueryAdaptiveBroadcastExec =>
    unfiltered(running(s.child)).canonicalized
  }.toSet

  // Canonical forms of the plans below broadcasts: a pruning subquery is used if its plan is among them.
  private lazy val broadcastPlans: Set[SparkPlan] = all.collect {
    case b: BroadcastExchangeLike => unfiltered(b.children.head).canonicalized
    case q: BroadcastQueryStageExec => unfiltered(q.broadcast.children.head).canonicalized
  }.toSet

  /** The canonical form by which Spark will compare the plan when it makes a stage of it. An exchange whose scans are
    * filtered never equals an unfiltered one.
    */
  private[plan] def canonical(p: SparkPlan): SparkPlan = p match {
    case q: QueryStageExec => q.canonicalized
    case e => withoutUnusedPruning(asPlanned(e)).canonicalized
  }

  /** Replaces dynamic partition pruning that has no broadcast by `true`. Adaptive execution does the same in its last rule
    * (Spark 4.1 to 4.3: `PlanAdaptiveDynamicPruningFilters`). Exchanges that differ only in such pruning are therefore
    * equal (SPARK-32509).
    */
  private def withoutUnusedPruning(p: SparkPlan): SparkPlan =
    if (pruning.isEmpty) p
    else
      p.transformAllExpressions {
        case d: DynamicPruningExpression if isUnused(d) => d.withNewChildren(Seq(Literal.TrueLiteral))
      }

  private def isUnused(d: DynamicPruningExpression): Boolean = d.child match {
    case in: InSubqueryExec =>
      in.plan match {
        case s: SubqueryAdaptiveBroadcastExec =>
          s.onlyInBroadcast && !broadcastPlans(unfiltered(running(s.child)).canonicalized)
        case _ => false
      }
    case _ => false
  }

  // Before there are filters, and as a tag, which copies of a node keep: an exchange above filtered scans has no like.
  if (conf.exchangeReuseEnabled) {
    val own = plan.collect { case e: Exchange => e }
    own.filter(isOfPruning).foreach(_.setTagValue(Mark, Shared(id, None)))
    // Without adaptive execution subqueries have been planned, and two of them may have equal exchanges, too.
    if (own.nonEmpty || all.exists(_.isInstanceOf[BuildKeyTapExec])) {
      // Canonical forms of whole subtrees cost more than all else that is planned here, and most exchanges have no like.
      val equal = several(all.filter(isExchange))(likeness).flatMap(several(_)(canonical))
      for ((group, i) <- equal.zipWithIndex; exchange <- group) exchange.setTagValue(Mark, Shared(id, Some(i)))
    }
  }

  /** Whether Spark computes an exchange of the plan for several places. */
  def apply(exchange: SparkPlan): Boolean = mark(exchange).isDefined

  private def mark(exchange: SparkPlan): Option[Shared] = exchange.getTagValue(Mark).filter(_.by == id)

  /** Those of the exchanges that were equal before there were filters, in groups of two and more. */
  def groups[E <: SparkPlan](exchanges: Seq[E]): Seq[Seq[E]] =
    several(exchanges.filter(mark(_).exists(_.group.isDefined)))(mark)

  /** Adaptive execution makes the exchange of a pruning subquery late, if it finds its like in the query. */
  private def isOfPruning(exchange: Exchange): Boolean = exchange match {
    case b: BroadcastExchangeLike => pruning.nonEmpty && pruning(unfiltered(b.children.head).canonicalized)
    case _ => false
  }

  /** Whether a stage computes it already: then a narrowed copy would come on top of it. */
  def isMade(exchange: SparkPlan): Boolean = isAmong(exchange, all.filter(_.isInstanceOf[QueryStageExec]))

  /** Whether a plan has the exchange, too, with the same filters. */
  def isIn(exchange: SparkPlan, plan: SparkPlan): Boolean =
    isAmong(exchange, plan.collect { case e if isExchange(e) => e })

  private def isAmong(exchange: SparkPlan, others: Seq[SparkPlan]): Boolean = {
    val kind = likeness(exchange)
    lazy val form = canonical(exchange)
    others.exists(e => likeness(e) == kind && canonical(e) == form)
  }
}

private[plan] object SharedExchanges {
  private val ids = new AtomicLong

  /** @param by
    *   the id of the [[SharedExchanges]] that found the exchange shared
    * @param group
    *   of equal exchanges; None if another one comes when the query runs
    */
  private final case class Shared(by: Long, group: Option[Int])
  private val Mark: TreeNodeTag[Shared] = TreeNodeTag[Shared]("dynamicfilters.shared")

  private def several[E, K](some: Seq[E])(key: E => K): Seq[Seq[E]] = some.groupBy(key).values.filter(_.size > 1).toSeq

  private def isExchange(p: SparkPlan): Boolean = p.isInstanceOf[Exchange] || p.isInstanceOf[QueryStageExec]

  /** Types of what a plan puts out, what it reads, and the constants in it. */
  private[plan] type Likeness = (Seq[DataType], Int)

  /** Equal for plans with equal canonical forms, and much cheaper: to make and compare those took a third of the time that the
    * rule takes, of TPC-DS queries that join five tables and more.
    */
  private[plan] def likeness(p: SparkPlan): Likeness = (p.output.map(_.dataType), read(p))

  // In any order: a canonical form may have another one. Scans are equal if their sets of paths are, and leaves that stand for
  // another plan if that is.
  private def read(p: SparkPlan): Int = p match {
    case q: QueryStageExec => read(q.plan)
    case r: ReusedExchangeExec => read(r.child)
    case a: AdaptiveSparkPlanExec => read(a.initialPlan)
    case f: FileSourceScanExec => f.relation.location.rootPaths.iterator.map(_.hashCode).minOption.getOrElse(0)
    case leaf if leaf.children.isEmpty => leaf.getClass.hashCode
    case f: FilterExec => constants(f.condition) + read(f.child)
    case other => other.children.iterator.map(read).sum
  }

  private def constants(e: Expression): Int = e match {
    // One that is not used becomes a constant.
    case _: DynamicPruningExpression => 0
    case l: Literal if l.dataType != BooleanType => l.hashCode
    case other => other.children.iterator.map(constants).sum
  }

  /** All operators, those of subqueries and of stages that run included; a stage stands for its exchange. */
  private def withSubqueries(p: SparkPlan): Seq[SparkPlan] = {
    val below = p match {
      case q: QueryStageExec => q.plan.children
      case a: AdaptiveSparkPlanExec => Seq(a.executedPlan)
      case other => other.children
    }
    p +: (below ++ p.subqueries).flatMap(withSubqueries)
  }

  private def running(p: SparkPlan): SparkPlan = p match {
    case a: AdaptiveSparkPlanExec => a.executedPlan
    case other => other
  }

  /** The plan without what Spark puts between operators last of all: subqueries are planned before the query. */
  private def asPlanned(p: SparkPlan): SparkPlan = p match {
    case _: WholeStageCodegenExec | _: InputAdapter | _: ColumnarToRowExec | _: TopKTapExec | _: BuildKeyTapExec =>
      asPlanned(p.children.head)
    case other =>
      // By identity: a plan and its copy are equal, and a copy has to be made canonical anew.
      val below = other.children.map(asPlanned)
      if (below.zip(other.children).forall { case (x, y) => x eq y }) other else other.withNewChildren(below)
  }

  /** The plan without dynamic filters, too. */
  private def unfiltered(p: SparkPlan): SparkPlan = asPlanned(p).transformUp {
    case d: DynamicFilterScanExec => ScanPlanner.unfiltered(d)
    case r: RowFilteredScanExec => RowScans.asPlanned(r)
    case c: CachedScanExec => c.child
  }
}
