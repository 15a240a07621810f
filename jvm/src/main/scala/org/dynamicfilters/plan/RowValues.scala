package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.v2.MergeRowsExec
import org.dynamicfilters.operators.PlanNodes
import org.dynamicfilters.tables.DeltaTable

/** Classifies non-deterministic expressions: some of them depend only on the row (the name of its file), others on the
  * other rows of its partition (random and row numbers).
  */
object RowValues {

  /** The file and position in the file of a row, which depend only on the row. */
  private def isFileInfo(e: Expression): Boolean = e match {
    case _: InputFileName | _: InputFileBlockStart | _: InputFileBlockLength => true
    case _ => false
  }

  /** Functions of Delta that count rows for metrics, or record their files. Their value depends only on the row, but
    * they must see all rows that they see in stock Spark.
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

  /** The same within a plan: row numbers of its MERGE do not count as depending on a row's position. */
  final class InPlan(root: SparkPlan) {

    /** Whether a projection may evaluate the expression for fewer rows, always the same ones. */
    def maySeeFewerRows(e: NamedExpression): Boolean = dependsOnRowOnly(e) || isMergeNumber(e)

    /** Whether no expression of the operator depends on the position of a row in its partition, as random numbers do.
      */
    def ignoresPosition(p: SparkPlan): Boolean = p.expressions.forall {
      case n: NamedExpression if isMergeNumber(n) => true
      // A method of Java may return another value each time, but does not know the position of the row.
      case e => all(e)(x => isFileInfo(x) || isDeltaMetric(x) || x.isInstanceOf[CallMethodViaReflection])
    }

    private def isMergeNumber(e: NamedExpression): Boolean = e match {
      case Alias(_: MonotonicallyIncreasingID, name) => mergeNumber.contains(name)
      case _ => false
    }

    /** The name of the row number of a MERGE, if no other row numbers are in the plan: those of its source may be written.
      * A MERGE only compares its own for equality, to find target rows with two matches, so other unique numbers for the
      * same rows give the same result. Delta's MERGE is recognized by its metrics.
      */
    private lazy val mergeNumber: Option[String] = {
      val operators = PlanNodes.withStages(root)
      val numbers = operators.flatMap(_.expressions).flatMap(_.collect { case m: MonotonicallyIncreasingID => m })
      Option.when(numbers.size == 1)(operators).toSeq.flatten.collectFirst {
        // `RewriteMergeIntoTable` adds it.
        case m: MergeRowsExec if m.checkCardinality => "__row_id"
        case p if p.expressions.exists(_.exists(isDeltaMetric)) => "_row_id_"
      }
    }
  }
}
