package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{And, Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, RangePartitioning, SinglePartition}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.{FileSourceScanExec, FilterExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, FileScan}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.internal.SQLConf
import org.dynamicfilters.operators.SpecScan
import org.dynamicfilters.scan.ScanPlace
import org.dynamicfilters.state.UserRef
import org.dynamicfilters.user.DynamicFilterPredicate

/** Puts users' filters into the scans below the conditions that use them. The conditions stay where they are: what a scan
  * lets pass is looked at again, so a scan need not be exact.
  *
  * Spark's optimizer has brought the conditions as near to the scans as they may come.
  */
final class UserPlanner(plan: SparkPlan, conf: SQLConf) {
  import UserPlanner._

  /** Rows that are dealt out in turn go to other partitions if rows before them are missing. A retried task that sees a newer
    * generation than its first attempt would so lose rows that match.
    */
  private lazy val mayFollow: Boolean = !dealsInTurn(plan)

  def apply(): SparkPlan = if (plan.exists(uses)) visit(plan) else plan

  private def visit(p: SparkPlan): SparkPlan = p match {
    case s: SpecScan => byPartition(s, partitionFilters(s.child))
    case s @ (_: FileSourceScanExec | _: BatchScanExec) => byPartition(s, partitionFilters(s))
    case f: FilterExec =>
      val below = visit(f.child)
      val drawn = if (f.condition.deterministic) None else Some(DrawsBeside)
      conjuncts(f.condition).collect { case (u, Some(column)) => (u, column) }.foldLeft(below) {
        case (child, (u, column)) =>
          drawn.toLeft(()).flatMap(_ => pushed(child, f.condition, u, column)) match {
            case Right(filtered) => filtered
            case Left(reason) =>
              note(f, u, column, reason)
              child
          }
      } match {
        case same if same eq f.child => f
        case changed => f.withNewChildren(Seq(changed))
      }
    case other => other.mapChildren(visit)
  }

  private def pushed(
      p: SparkPlan,
      condition: Expression,
      u: DynamicFilterPredicate,
      column: Attribute
  ): Either[String, SparkPlan] =
    new PushDown(
      "the column",
      Seq(condition),
      PushDown.Reach.withinStage,
      (scan, columns, _) => filtered(scan, u, columns.head)
    )(p, Seq(column))

  private def filtered(scan: SparkPlan, u: DynamicFilterPredicate, column: Attribute): Either[String, SparkPlan] =
    ScanPlanner.filtered(scan, Seq(column), Seq(UserRef(u.generation, u.follows && mayFollow)), ScanPlace.near, conf)

  /** Conditions on partition columns alone end in the scan: Spark lists its files by them. */
  private def byPartition(scan: SparkPlan, conditions: Seq[Expression]): SparkPlan =
    conditions.flatMap(conjuncts).foldLeft(scan) {
      case (s, (u, Some(column))) =>
        // Sources of DataSource V2 have attributes of their own.
        filtered(s, u, scan.output.find(_.name == column.name).getOrElse(column)) match {
          case Right(done) => done
          case Left(reason) =>
            note(scan, u, column, reason)
            s
        }
      case (s, _) => s
    }

  private def note(f: SparkPlan, u: DynamicFilterPredicate, column: Attribute, reason: String): Unit = {
    val rows = RowsOnly(UserRef(u.generation, follows = false), column.name, reason)
    val known = f.getTagValue(RowsOnlyTag).getOrElse(Nil)
    if (!known.contains(rows)) f.setTagValue(RowsOnlyTag, known :+ rows)
  }
}

object UserPlanner {

  /** A random number is drawn for each row that the scan puts out: without some of them the others get other numbers. */
  private val DrawsBeside = "a condition beside it is non-deterministic"

  /** A filter that reached no scan. */
  final case class RowsOnly(ref: UserRef, column: String, reason: String)

  /** On the condition that uses it; read when the query has ended. */
  val RowsOnlyTag: TreeNodeTag[Seq[RowsOnly]] = TreeNodeTag[Seq[RowsOnly]]("dynamicfilters.rowsOnly")

  /** Whether a condition is a user's filter on a column, which a scan evaluates by itself. */
  def isInScan(condition: Expression): Boolean = condition match {
    case DynamicFilterPredicate(_, _, _, _, Some(_), _: Attribute) => true
    case _ => false
  }

  private def uses(p: SparkPlan): Boolean =
    (p.expressions ++ partitionFilters(p)).exists(_.exists(_.isInstanceOf[DynamicFilterPredicate]))

  private def partitionFilters(scan: SparkPlan): Seq[Expression] = scan match {
    case f: FileSourceScanExec => f.partitionFilters
    case b: BatchScanExec =>
      b.scan match {
        case f: FileScan => f.partitionFilters
        case _ => Nil
      }
    case _ => Nil
  }

  /** The users' filters that all rows have to pass, with the column if it is one. */
  private def conjuncts(e: Expression): Seq[(DynamicFilterPredicate, Option[Attribute])] = e match {
    case And(a, b) => conjuncts(a) ++ conjuncts(b)
    case u: DynamicFilterPredicate if u.pin.isDefined =>
      Seq((u, u.child match { case a: Attribute => Some(a); case _ => None }))
    case _ => Nil
  }

  private def dealsInTurn(plan: SparkPlan): Boolean = plan.exists {
    case e: ShuffleExchangeLike =>
      e.outputPartitioning match {
        case _: HashPartitioning | _: RangePartitioning | SinglePartition => false
        // Of Spark 4.3 also one that deals rows out by keys, but NULLs in turn.
        case _ => true
      }
    case q: QueryStageExec => dealsInTurn(q.plan)
    case _ => false
  }
}
