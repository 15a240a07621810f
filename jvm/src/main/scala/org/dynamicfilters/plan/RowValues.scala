package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.datasources.v2.MergeRowsExec
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, ReusedExchangeExec, ShuffleExchangeLike}
import org.apache.spark.sql.execution.joins._
import org.dynamicfilters.operators.{BuildKeyTapExec, TopKTapExec}
import org.dynamicfilters.tables.DeltaTable

/** Expressions that Spark calls non-deterministic, and whose value in a row does not depend on which other rows are there. */
object RowValues {

  /** The file that a row comes from, and where in it: a function of the row. */
  private def isOfFile(e: Expression): Boolean = e match {
    case _: InputFileName | _: InputFileBlockStart | _: InputFileBlockLength => true
    case _ => false
  }

  /** Counts rows for a command's metrics, or notes their files, and gives back what it was given. Where it is evaluated it has to
    * see all rows that it sees in stock Spark, but what it returns is a function of the row.
    */
  private def isWatched(e: Expression): Boolean = e match {
    case u: ScalaUDF => u.function.getClass.getName.startsWith(DeltaTable.Package)
    case other => other.getClass.getName == DeltaTable.Package + "metric.IncrementMetric"
  }

  private def all(e: Expression)(allowed: Expression => Boolean): Boolean =
    e.deterministic || (e match {
      case x if allowed(x) => x.children.forall(all(_)(allowed))
      case _: Nondeterministic | _: UserDefinedExpression => false
      case x => x.children.exists(!_.deterministic) && x.children.forall(all(_)(allowed))
    })

  /** Whether a retried task has the same values in the same rows. */
  def areRepeatable(e: Expression): Boolean = all(e)(x => isOfFile(x) || isWatched(x))

  /** Whether nothing is lost if it is evaluated in fewer rows. */
  def areOfRow(e: Expression): Boolean = all(e)(isOfFile)

  /** Whether the result stays right if a projection above a scan sees fewer rows, always the same ones. */
  final class Of(root: SparkPlan) {

    def mayBelow(e: NamedExpression): Boolean = areOfRow(e) || isNumber(e)

    /** Whether nothing in the plan depends on the place of a row, as random numbers do. */
    def areFreeOfPlace(p: SparkPlan): Boolean = p.expressions.forall {
      case n: NamedExpression if isNumber(n) => true
      // What a method of Java returns may be another value each time, but has nothing to do with the place of the row.
      case e => all(e)(x => isOfFile(x) || isWatched(x) || x.isInstanceOf[CallMethodViaReflection])
    }

    private def isNumber(e: NamedExpression): Boolean = e match {
      case Alias(_: MonotonicallyIncreasingID, _) => comparedOnly.contains(e.exprId)
      case _ => false
    }

    private lazy val nodes: Seq[SparkPlan] = below(root)

    private def below(p: SparkPlan): Seq[SparkPlan] = p match {
      case q: QueryStageExec => p +: below(q.plan)
      case a: AdaptiveSparkPlanExec => p +: below(a.executedPlan)
      case other => p +: other.children.flatMap(below)
    }

    /** Row numbers of which the query only asks whether two are equal: other numbers for the same rows, unique as before, give the
      * same result. So they group, go through exchanges by hash and on to the next operator, and nothing else; they are not in
      * the result. Delta's MERGE finds target rows that match twice this way. Spark's own MERGE does too, in
      * `MergeRowsExec`; it finds the column by name, so the column is not in its expressions.
      */
    private lazy val comparedOnly: Set[ExprId] = {
      val made = nodes.flatMap {
        case p: ProjectExec => p.projectList.collect { case a @ Alias(_: MonotonicallyIncreasingID, _) => a.exprId }
        case _ => Nil
      }.toSet
      made.filter { id =>
        val names = handedOn(Set(id))
        !root.output.exists(a => names(a.exprId)) && nodes.forall(n => onlyCompares(n, names))
      }
    }

    /** The ids under which a column goes on through projections and aggregates. */
    private def handedOn(ids: Set[ExprId]): Set[ExprId] = {
      val more = ids ++ nodes.flatMap(_.expressions.collect {
        case x @ Alias(a: Attribute, _) if ids(a.exprId) => x.exprId
      })
      if (more == ids) ids else handedOn(more)
    }

    /** Operators that are not listed may do anything with their input: write it, hand it on under other ids, as a reused exchange
      * does, or beside other numbers under the same id, as a union.
      */
    private def onlyCompares(n: SparkPlan, ids: Set[ExprId]): Boolean = {
      val input = n match {
        case r: ReusedExchangeExec => Seq(r.child)
        case _ => n.children
      }
      !input.exists(_.output.exists(a => ids(a.exprId))) || {
        def free(e: Expression) = !e.references.exists(a => ids(a.exprId))
        def plain(e: Expression) = free(e) || (e match {
          case _: Attribute | Alias(_: Attribute, _) => true
          case _ => false
        })
        n match {
          case p: ProjectExec => p.projectList.forall(plain)
          case a: BaseAggregateExec =>
            a.groupingExpressions.forall(plain) && a.resultExpressions.forall(plain) &&
            a.aggregateExpressions.forall(free)
          case e: ShuffleExchangeLike =>
            e.outputPartitioning match {
              case h: HashPartitioning => h.expressions.forall(plain)
              case _ => false
            }
          case _: FilterExec | _: SortExec | _: BroadcastHashJoinExec | _: SortMergeJoinExec | _: ShuffledHashJoinExec |
              _: BroadcastNestedLoopJoinExec | _: MergeRowsExec =>
            n.expressions.forall(free)
          case _: BroadcastExchangeLike | _: AQEShuffleReadExec | _: WholeStageCodegenExec | _: InputAdapter |
              _: ColumnarToRowTransition | _: BuildKeyTapExec | _: TopKTapExec =>
            true
          case _ => false
        }
      }
    }
  }
}
