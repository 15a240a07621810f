package org.dynamicfilters.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{
  Ascending,
  Attribute,
  AttributeReference,
  Expression,
  NullsFirst,
  SortOrder
}
import org.apache.spark.sql.execution.{SparkPlan, TakeOrderedAndProjectExec}
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.filter.{KeyDomain, Traverse}
import org.dynamicfilters.operators.TopKTapExec
import org.dynamicfilters.scan.ScanPlace
import org.dynamicfilters.settings.Settings
import org.dynamicfilters.state.{TopKRef, TopKSpec}

/** Makes a TopK a producer: a tap under it, and its bound in the scans that its first sort key comes from. */
object TopKPlanner {

  /** What is wanted of an operator's input: the rows with the first `limit` keys.
    *
    * @param key
    *   the first sort key: only this one makes a filter
    * @param tiesFree
    *   see [[TopKSpec]], as `distinct` and `keepsOrder`
    */
  final case class Wanted(
      key: Expression,
      ascending: Boolean,
      nullsFirst: Boolean,
      limit: Int,
      tiesFree: Boolean,
      distinct: Boolean,
      keepsOrder: Boolean = false
  )
  object Wanted {
    def apply(first: SortOrder, limit: Int, tiesFree: Boolean, distinct: Boolean): Wanted =
      Wanted(first.child, first.direction == Ascending, first.nullOrdering == NullsFirst, limit, tiesFree, distinct)
  }

  /** @return
    *   the new child of the TopK, or why it produces no filter
    */
  def plan(topK: TakeOrderedAndProjectExec, conf: SQLConf): Either[String, SparkPlan] =
    tapped(
      topK.child,
      Wanted(topK.sortOrder.head, topK.limit, tiesFree = topK.sortOrder.length == 1, distinct = false),
      topK,
      conf
    )

  /** @param input
    *   each of its rows is a candidate of the TopK
    * @param producer
    *   the TopK
    * @return
    *   the input with a tap on it and a filter in its scans, or why there is none
    */
  def tapped(input: SparkPlan, wanted: Wanted, producer: SparkPlan, conf: SQLConf): Either[String, SparkPlan] = {
    val max = Settings.get(conf, Settings.TopKMaxLimit)
    for {
      _ <- Either.cond(wanted.limit > 0, (), "the limit is 0")
      _ <- Either.cond(wanted.limit <= max, (), s"the limit ${wanted.limit} is above ${Settings.TopKMaxLimit.key}=$max")
      key <- wanted.key match {
        case a: AttributeReference => Right(a)
        case other => Left(s"the sort key is computed: ${ExpressionText.of(other)}")
      }
      domain <- KeyDomain.of(key.dataType)
      inOrder <- isInOrder(input)
      spec = TopKSpec(
        domain,
        wanted.limit,
        wanted.ascending,
        wanted.nullsFirst,
        wanted.tiesFree && inOrder,
        wanted.distinct,
        wanted.keepsOrder
      )
      done <- withTap(input, Seq(key), Seq(TopKRef(producer, spec)), "the sort key", producer.expressions, conf)
    } yield done
  }

  /** @param refs
    *   by column; of several filters a row has to pass only one
    * @param what
    *   the columns are to the producer, for reasons
    * @param computed
    *   by the producer, of each row
    * @return
    *   the input with a tap on it and the filters in its scans, or why there is none
    */
  private[plan] def withTap(
      input: SparkPlan,
      columns: Seq[Attribute],
      refs: Seq[TopKRef],
      what: String,
      computed: Seq[Expression],
      conf: SQLConf
  ): Either[String, SparkPlan] = {
    // By scan.
    val names = mutable.LinkedHashSet.empty[Seq[String]]
    def toScan(scan: SparkPlan, columns: Seq[Attribute], crossed: Boolean) = {
      val done = ScanPlanner.filtered(scan, columns, refs, ScanPlace.near, conf)
      if (done.isRight) names += columns.map(_.name)
      done
    }
    for {
      ordinals <- Traverse(columns) { c =>
        val at = input.output.indexWhere(_.exprId == c.exprId)
        Either.cond(at >= 0, at, s"the column ${c.name} is not in the input")
      }
      pushed <- new PushDown(what, computed, PushDown.Reach.withinStage, toScan)(input, columns)
    } yield {
      val shown = if (refs.size == 1) names.flatten.toSeq else names.head
      val node = TopKTapExec(refs, ordinals, shown, pushed)
      node.copyTagsFrom(input)
      node
    }
  }

  /** Whether a retried task sees the same rows in the same order, so that ties are told apart by their place; or why they are
    * not even the same rows.
    */
  def isInOrder(input: SparkPlan): Either[String, Boolean] = Repeatable.rows(input) match {
    case None => Right(true)
    case Some(_) => Repeatable.rowsOfCacheInAnyOrder(input).toLeft(false)
  }
}
