package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{Ascending, AttributeReference, NullsFirst}
import org.apache.spark.sql.execution.{SparkPlan, TakeOrderedAndProjectExec}
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.Settings
import org.dynamicfilters.exchange.{TopKRef, TopKSpec}
import org.dynamicfilters.filter.KeyDomain
import org.dynamicfilters.produce.TopKTapExec
import org.dynamicfilters.scan.ScanPlace

/** Makes a TopK a producer: a tap under it, and its bound in the scans that its first sort key comes from. */
object TopKPlanner {

  /** @return
    *   the new child of the TopK, or why it produces no filter
    */
  def plan(topK: TakeOrderedAndProjectExec, conf: SQLConf): Either[String, SparkPlan] = {
    val first = topK.sortOrder.head
    val max = Settings.get(conf, Settings.TopKMaxLimit)
    for {
      _ <- Either.cond(topK.limit > 0, (), "the limit is 0")
      _ <- Either.cond(topK.limit <= max, (), s"the limit ${topK.limit} is above ${Settings.TopKMaxLimit.key}=$max")
      key <- first.child match {
        case a: AttributeReference => Right(a)
        case other => Left(s"the sort key is computed: ${other.sql}")
      }
      domain <- KeyDomain.of(key.dataType)
      ordinal = topK.child.output.indexWhere(_.exprId == key.exprId)
      _ <- Either.cond(ordinal >= 0, (), s"the sort key ${key.name} is not in the input")
      _ <- Repeatable.rows(topK.child).toLeft(())
      spec = TopKSpec(
        domain,
        topK.limit,
        first.direction == Ascending,
        first.nullOrdering == NullsFirst,
        tiesFree = topK.sortOrder.length == 1
      )
      ref = TopKRef(marker(topK), spec)
      names = scala.collection.mutable.LinkedHashSet.empty[String]
      pushed <- new PushDown(
        "the sort key",
        PushDown.Reach.withinStage,
        (scan, columns, _) => {
          val column = columns.head
          val result = ScanPlanner.filtered(scan, column, ref, ScanPlace.near, conf)
          if (result.isRight) names += column.name
          result
        }
      )(topK.child, Seq(key))
    } yield {
      val node = TopKTapExec(ref, ordinal, names.toSeq, pushed)
      node.copyTagsFrom(topK.child)
      node
    }
  }

  /** Equal for equal TopKs over equal inputs; see [[TopKRef]]. */
  private def marker(topK: TakeOrderedAndProjectExec): String = f"topk-${topK.canonicalized.hashCode}%08x"
}
