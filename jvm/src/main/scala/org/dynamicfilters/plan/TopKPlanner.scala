package org.dynamicfilters.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{
  Ascending, Attribute, AttributeReference, DenseRank, Expression, NullsFirst, SortOrder
}
import org.apache.spark.sql.execution.{SortExec, SparkPlan, TakeOrderedAndProjectExec}
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ExchangeQueryStageExec}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.window.WindowGroupLimitExec
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.filter.{KeyDomain, Traverse}
import org.dynamicfilters.operators.{Tagged, TopKTapExec}
import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{Producer, TopKRef, TopKSpec}

/** Makes TopKs producers: puts a tap below a TopK, and the tap's bound into the scans of the first sort key.
  * [[DynamicFilterRule]] calls it; planners of other producers that have a bound use `tapped` and `withTap`.
  */
object TopKPlanner {

  /** The rows that an operator needs of its input: those with the first `limit` keys. [[TopKSpec]] describes the other fields.
    *
    * @param key the first sort key, the only one with a filter
    * @param tiesFree applies only if the input is in the same order in each attempt
    */
  final case class Wanted(
      key: Expression,
      ascending: Boolean,
      nullsFirst: Boolean,
      limit: Int,
      tiesFree: Boolean,
      distinct: Boolean = false,
      keepsOrder: Boolean = false
  ) {
    def spec(domain: KeyDomain, inOrder: Boolean): TopKSpec =
      TopKSpec(domain, limit, ascending, nullsFirst, tiesFree && inOrder, distinct, keepsOrder)
  }
  object Wanted {
    def apply(first: SortOrder, limit: Int, tiesFree: Boolean, distinct: Boolean): Wanted =
      Wanted(first.child, first.direction == Ascending, first.nullOrdering == NullsFirst, limit, tiesFree, distinct)
  }

  /** @return the new child of the TopK, or why it produces no filter */
  def plan(topK: TakeOrderedAndProjectExec, conf: SQLConf): Either[Reason, SparkPlan] = {
    val first = Wanted(topK.sortOrder.head, topK.limit, tiesFree = topK.sortOrder.length == 1, distinct = false)
    val (input, key) = MonotoneExpressions.asColumns(topK.child, Seq(first.key))
    tapped(input, first.copy(key = key.head), topK, conf)
  }

  /** @param input an operator all of whose rows reach the TopK */
  def tapped(input: SparkPlan, wanted: Wanted, producer: SparkPlan, conf: SQLConf): Either[Reason, SparkPlan] = {
    val max = Settings.get(conf, Settings.TopKMaxLimit)
    for {
      _ <- Either.cond(wanted.limit > 0, (), Reasons.NoLimit)
      _ <- Either.cond(wanted.limit <= max, (), Reasons.LimitAbove(wanted.limit, Settings.TopKMaxLimit.key, max))
      done <- withTap(input, Seq(wanted), producer, Producer.topk, conf)
    } yield done
  }

  /** @param wanted each gets a filter. A row is needed if any of them needs it
    * @param producer evaluates its expressions for each row
    * @return the input with a tap on it and the filters in its scans, or why there is none
    */
  private[plan] def withTap(
      input: SparkPlan,
      wanted: Seq[Wanted],
      producer: SparkPlan,
      kind: Producer.Value,
      conf: SQLConf
  ): Either[Reason, SparkPlan] = {
    val what = if (kind == Producer.topk) "the sort key" else "the aggregated column"
    // Column names in each scan.
    val names = mutable.LinkedHashSet.empty[Seq[String]]
    for {
      keys <- Traverse(wanted)(_.key match {
        case a: AttributeReference => Right(a)
        case other => Left(Reasons.Computed(what, ExpressionText.withoutValues(other)))
      })
      domains <- Traverse(keys)(k => KeyDomain.forType(k.dataType))
      inOrder <- isInOrder(input, keys)
      ordinals <- Traverse(keys) { k =>
        val at = input.output.indexWhere(_.exprId == k.exprId)
        Either.cond(at >= 0, at, Reasons.NotBelow("the column", k.name, "input"))
      }
      refs = wanted.indices.map(i => TopKRef(producer, wanted(i).spec(domains(i), inOrder), i, kind))
      filter = (at: PushDown.Reached) =>
        ScanPlanner.filtered(at, refs, conf).map { scan =>
          names += at.shownNames
          scan
        }
      pushed <- new PushDown(what, producer.expressions, PushDown.Reach.withinStage, filter)(input, keys)
    } yield {
      val shown = if (refs.size == 1) Seq(names.flatten.toSeq) else names.head.map(Seq(_))
      Tagged(TopKTapExec(refs, ordinals, shown, pushed), input)
    }
  }

  /** Whether a retried task sees the same rows in the same order, so that ties can be decided by position; or why it may see
    * other rows.
    *
    * @param keys columns of the bounds
    */
  private def isInOrder(input: SparkPlan, keys: Seq[Attribute]): Either[Reason, Boolean] =
    Repeatable
      .rows(input)
      .map(reason => if (PushDown.isOfGroups(input, keys)) Reasons.OfGroups else reason)
      .toLeft(!Repeatable.readsCachedData(input))
}

/** Makes `rank() OVER (ORDER BY x) <= k` and `dense_rank()` without a partition key producers: Spark puts a limit by rank below
  * the sort's exchange, which is a TopK with ties. (Spark makes a TopK of `row_number() <= k` itself.)
  *
  * With a partition key, each group would need its own bound, and a row group has rows of most groups, so only single rows could
  * be skipped.
  */
object WindowLimitPlanner {

  /** @return the operator's new child, or why it produces no filter; None for the second limit, above the exchange */
  def plan(w: WindowGroupLimitExec, conf: SQLConf): Option[Either[Reason, SparkPlan]] = {
    // The tap goes below the sort, which reads all rows before it returns the first.
    val input = w.child match {
      case s: SortExec => s.child
      case other => other
    }
    def sorted(tapped: SparkPlan) = if (input eq w.child) tapped else w.child.withNewChildren(Seq(tapped))
    input match {
      case _: TopKTapExec | _: WindowGroupLimitExec | _: Exchange | _: ExchangeQueryStageExec | _: AQEShuffleReadExec =>
        None
      case _ if w.partitionSpec.nonEmpty => Some(Left(Reasons.LimitByGroup))
      case _ =>
        val wanted = TopKPlanner.Wanted(
          w.orderSpec.head,
          w.limit,
          tiesFree = false,
          distinct = w.rankLikeFunction.isInstanceOf[DenseRank]
        )
        Some(TopKPlanner.tapped(input, wanted, w, conf).map(sorted))
    }
  }
}
