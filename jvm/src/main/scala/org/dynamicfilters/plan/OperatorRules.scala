package org.dynamicfilters.plan

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.EvalPythonExec

/** Spark's physical operators, and whether a filter goes down through them: the words for plans, reports and docs.
  *
  * What is done is said by [[PushDown]], where what an operator does to columns is seen. This is the list of all there are,
  * compared by tests with docs/operators.md and with the classes of Spark, so that an operator that a new Spark brings is
  * noticed. What is not listed stops a filter too.
  */
object OperatorRules {

  /** Whether a filter on a column that comes from below goes on below. */
  sealed abstract class Passes(val text: String)
  object Passes {

    /** The column stays what it is. */
    case object Yes extends Passes("yes")

    /** Under conditions, which `why` says. */
    case object Sometimes extends Passes("sometimes")
    case object No extends Passes("no")

    /** It has no input. */
    case object Source extends Passes("source")

    /** Never between an operator that makes a filter and a scan. */
    case object NotMet extends Passes("not met")
  }

  /** Operators that are alike.
    *
    * @param names
    *   simple names of their classes, without `Exec` at the end
    * @param why
    *   a sentence for the docs
    * @param inTheWay
    *   what is in the way, as in "a sample is in the way", of those that stop filters; None for "the operator X"
    * @param seesPartition
    *   whether what they make of a row depends on the other rows of the row's partition
    */
  final case class Rule(
      names: Seq[String],
      passes: Passes,
      why: String,
      inTheWay: Option[String] = None,
      seesPartition: Boolean = false
  )

  import Passes._

  private def rule(passes: Passes, why: String)(names: String*): Rule = Rule(names, passes, why)
  private def stop(inTheWay: String, why: String, seesPartition: Boolean = false)(names: String*): Rule =
    Rule(names, No, why, Some(inTheWay), seesPartition)

  val all: Seq[Rule] = Seq(
    rule(Sometimes, "where it is deterministic and the column is handed on or renamed, not computed")("Project"),
    rule(Sometimes, "where its condition is deterministic")("Filter"),
    rule(
      Sometimes,
      "where every function is deterministic and the column comes from below: the result of each row is appended to it; " +
        "not of functions over an iterator of batches, which see all rows of a partition"
    )("BatchEvalPython", "ArrowEvalPython"),
    rule(Sometimes, "explode, posexplode, inline and stack, of a column that comes from below")("Generate"),
    rule(Sometimes, "where the column is in all the rows that it makes of one")("Expand"),
    rule(Sometimes, "into each branch whose type is the same")("Union"),
    rule(Yes, "partitions are put together, rows stay")("Coalesce"),
    rule(
      Sometimes,
      "into the side that the column comes from and across by an equal key, as the join's type allows; " +
        "TopK and min/max: into the streamed side only"
    )("BroadcastHashJoin", "BroadcastNestedLoopJoin"),
    rule(Sometimes, "joins only: as above, by both sides")("SortMergeJoin", "ShuffledHashJoin"),
    rule(Sometimes, "joins only: by a column that it groups by; deterministic")(
      "HashAggregate",
      "SortAggregate",
      "ObjectHashAggregate",
      "MergingSessions"
    ),
    rule(Sometimes, "joins only: by a column of PARTITION BY")("Window", "WindowGroupLimit"),
    rule(Sometimes, "joins only: the bound of a TopK is not known before all rows were sorted")("Sort"),
    rule(Sometimes, "joins only: where no other part of the query uses it too, or a copy is expected to be cheaper")(
      "ShuffleExchange",
      "BroadcastExchange"
    ),
    rule(Yes, "only another way to run what is below")("WholeStageCodegen", "InputAdapter", "ColumnarToRow"),
    rule(No, "a stage that runs or has run is not planned again")(
      "ShuffleQueryStage",
      "BroadcastQueryStage",
      "ResultQueryStage",
      "AQEShuffleRead"
    ),
    rule(No, "one exchange or subquery for several places cannot be narrowed for one of them")(
      "ReusedExchange",
      "ReusedSubquery"
    ),
    stop("a sample", "with rows missing it draws others")("Sample"),
    stop("a limit", "with rows missing it takes others")(
      "LocalLimit",
      "GlobalLimit",
      "CollectLimit",
      "CollectTail",
      "TakeOrderedAndProject"
    ),
    stop("observed metrics", "they would count fewer rows")("CollectMetrics"),
    stop("an as-of join", "with rows missing another one is the nearest")("SortMergeAsOfJoin"),
    stop("a cartesian product", "it computes one side again for each partition of the other")("CartesianProduct"),
    stop("a function of whole partitions", "it sees all rows, and may count or compare them", seesPartition = true)(
      "MapInPandas",
      "MapInArrow",
      "MapPartitions",
      "MapPartitionsInRWithArrow",
      "MapPartitionsExternalUDF"
    ),
    stop("a function of whole groups", "it sees all rows of a group, and makes rows of its own")(
      "ArrowAggregatePython",
      "ArrowWindowPython",
      "FlatMapGroupsInPandas",
      "FlatMapGroupsInArrow",
      "FlatMapCoGroupsInPandas",
      "FlatMapCoGroupsInArrow",
      "FlatMapGroupsInR",
      "FlatMapGroupsInRWithArrow",
      "MapGroups",
      "CoGroup"
    ),
    stop("a Python table function", "at the end of a partition it may return rows made of all", seesPartition = true)(
      "BatchEvalPythonUDTF",
      "ArrowEvalPythonUDTF"
    ),
    stop("a function of typed rows", "what it makes of a row's columns is not known")(
      "DeserializeToObject",
      "SerializeFromObject",
      "MapElements",
      "AppendColumns",
      "AppendColumnsWithObject"
    ),
    stop("a script", "it sees all rows of a partition", seesPartition = true)(
      "SparkScriptTransformation",
      "HiveScriptTransformation"
    ),
    stop("a recursive table expression", "each round is made of the rows of the one before")("UnionLoop"),
    stop("a numbering of rows", "with rows missing they have other numbers", seesPartition = true)(
      "AttachDistributedSequence"
    ),
    rule(No, "not known well enough yet")(
      "BinBy",
      "MergeRows",
      "GroupPartitions",
      "RowToColumnar",
      "UpdatingSessions"
    ),
    rule(Source, "a scan, which is filtered itself or gives the reason why not")(
      "FileSourceScan",
      "BatchScan",
      "HiveTableScan",
      "RowDataSourceScan",
      "InMemoryTableScan",
      "TableCacheQueryStage"
    ),
    rule(Source, "rows that are there already")(
      "LocalTableScan",
      "RDDScan",
      "ExternalRDDScan",
      "Range",
      "OneRowRelation",
      "EmptyRelation",
      "CommandResult"
    ),
    rule(NotMet, "around a whole query or subquery")(
      "AdaptiveSparkPlan",
      "Subquery",
      "SubqueryBroadcast",
      "SubqueryAdaptiveBroadcast",
      "ProjectedBroadcastValueSubquery",
      "MultiResult",
      "WriteFiles",
      "DataWritingCommand",
      "ExecutedCommand",
      "PlanLater",
      "ExplainOnlySparkPlan",
      "SkewJoinChildWrapper",
      "PythonWorkerLogs"
    )
  )

  private val byName: Map[String, Rule] = all.flatMap(r => r.names.map(_ -> r)).toMap

  /** The name that the list has it by. */
  def nameOf(operator: Class[_]): String = operator.getSimpleName.stripSuffix("Exec")

  def of(operator: Class[_]): Option[Rule] = byName.get(nameOf(operator))

  /** What is in the way where an operator stops a filter. */
  def inTheWay(plan: SparkPlan): Option[String] = of(plan.getClass).flatMap(_.inTheWay)

  /** Whether what it makes of a row depends on the other rows of the row's partition. */
  def seesPartition(plan: SparkPlan): Boolean = plan match {
    case e: EvalPythonExec => e.udfs.exists(f => IteratorFunctions(f.evalType))
    case other => of(other.getClass).exists(_.seesPartition)
  }

  // Not by name: those of Arrow came with Spark 4.1.
  private val IteratorFunctions = Set(204, 251) // SQL_SCALAR_PANDAS_ITER_UDF, SQL_SCALAR_ARROW_ITER_UDF

  /** The list as docs/operators.md has it. */
  def table: Seq[String] = Seq("| operator | passes | why |", "|---|---|---|") ++
    all.map(r => s"| ${r.names.mkString("`", "` `", "`")} | ${r.passes.text} | ${r.why} |")
}
