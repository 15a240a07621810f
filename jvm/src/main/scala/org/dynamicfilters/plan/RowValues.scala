package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AQEShuffleReadExec
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.datasources.v2.MergeRowsExec
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, ReusedExchangeExec, ShuffleExchangeLike}
import org.apache.spark.sql.execution.joins._
import org.dynamicfilters.operators.{BuildKeyTapExec, PlanNodes, TopKTapExec}
import org.dynamicfilters.tables.DeltaTable

/** Classifies non-deterministic expressions: some of them depend only on the row (the name of its file), others on the other
  * rows of its partition (random and row numbers).
  */
object RowValues {

  /** The file and position in the file of a row, which depend only on the row. */
  private def isFileInfo(e: Expression): Boolean = e match {
    case _: InputFileName | _: InputFileBlockStart | _: InputFileBlockLength => true
    case _ => false
  }

  /** Functions of Delta that count rows for metrics, or record their files. Their value depends only on the row, but they must
    * see all rows that they see in stock Spark.
    */
  private def isDeltaMetric(e: Expression): Boolean = e match {
    case u: ScalaUDF => u.function.getClass.getName.startsWith(DeltaTable.Package)
    case other => other.getClass.getName == DeltaTable.Package + "metric.IncrementMetric"
  }

  private def all(e: Expression)(allowed: Expression => Boolean): Boolean =
    e.deterministic || (e match {
      case x if allowed(x) => x.children.forall(all(_)(allowed))
      case _: Nondeterministic | _: UserDefinedExpression => false
      case x => x.children.exists(!_.deterministic) && x.children.forall(all(_)(allowed))
    })

  /** Whether a retried task computes the same value for the same row. */
  def isRepeatable(e: Expression): Boolean = all(e)(x => isFileInfo(x) || isDeltaMetric(x))

  /** Whether the expression may be evaluated for fewer rows. */
  def dependsOnRowOnly(e: Expression): Boolean = all(e)(isFileInfo)

  /** The same for expressions of a plan, whose other operators show how the plan uses row numbers. */
  final class InPlan(root: SparkPlan) {

    /** Whether a projection may evaluate the expression for fewer rows, always the same ones. */
    def maySeeFewerRows(e: NamedExpression): Boolean = dependsOnRowOnly(e) || isNumber(e)

    /** Whether no expression of the operator depends on the position of a row in its partition, as random numbers do. */
    def ignoresPosition(p: SparkPlan): Boolean = p.expressions.forall {
      case n: NamedExpression if isNumber(n) => true
      // A method of Java may return another value each time, but does not know the position of the row.
      case e => all(e)(x => isFileInfo(x) || isDeltaMetric(x) || x.isInstanceOf[CallMethodViaReflection])
    }

    private def isNumber(e: NamedExpression): Boolean = e match {
      case Alias(_: MonotonicallyIncreasingID, _) => comparedOnly.contains(e.exprId)
      case _ => false
    }

    private lazy val nodes: Seq[SparkPlan] = PlanNodes.withStages(root)

    /** Row numbers (`monotonically_increasing_id`) that the query only compares for equality: other unique numbers for the same
      * rows give the same result. They may be grouping keys, hash keys of exchanges and passed on, but not be in the result.
      * Delta's MERGE finds target rows with two matches this way. Spark's own MERGE does too, in `MergeRowsExec`; it finds the
      * column by name, so the column is not in its expressions.
      */
    private lazy val comparedOnly: Set[ExprId] = {
      val made = nodes.flatMap {
        case p: ProjectExec => p.projectList.collect { case a @ Alias(_: MonotonicallyIncreasingID, _) => a.exprId }
        case _ => Nil
      }.toSet
      made.filter { id =>
        val names = withAliases(Set(id))
        !root.output.exists(a => names(a.exprId)) && nodes.forall(n => onlyCompares(n, names))
      }
    }

    /** The ids, and those of their aliases in projections and aggregates. */
    private def withAliases(ids: Set[ExprId]): Set[ExprId] = {
      val more = ids ++ nodes.flatMap(_.expressions.collect {
        case x @ Alias(a: Attribute, _) if ids(a.exprId) => x.exprId
      })
      if (more == ids) ids else withAliases(more)
    }

    /** Operators that are not listed may do anything with their input: write it, output it under other ids (a reused exchange),
      * or mix it with other numbers under the same id (a union).
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
