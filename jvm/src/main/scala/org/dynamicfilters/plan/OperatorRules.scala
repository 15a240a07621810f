package org.dynamicfilters.plan

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.EvalPythonExec
import org.dynamicfilters.reasons.{Reason, Reasons}

/** The reasons of the Spark operators that stop filters.
  *
  * [[PushDown]] lists the operators that let filters pass. An operator in neither list also stops a filter, as "the operator X".
  * docs/operators.md lists all operators; tests compare it with this list and with the classes of each Spark line.
  */
private[plan] object OperatorRules {

  private def stop(inTheWay: Reason)(names: String*): Seq[(String, Reason)] = names.map(_ -> inTheWay)

  /** By the simple class name without `Exec`: not every Spark line has all classes. */
  private[plan] val stops: Map[String, Reason] = Seq(
    stop(Reasons.Sample)("Sample"),
    stop(Reasons.Limit)("LocalLimit", "GlobalLimit", "CollectLimit", "CollectTail", "TakeOrderedAndProject"),
    stop(Reasons.Metrics)("CollectMetrics"),
    stop(Reasons.AsOfJoin)("SortMergeAsOfJoin"),
    stop(Reasons.CartesianProduct)("CartesianProduct"),
    stop(Reasons.PartitionFunction)(
      "MapInPandas",
      "MapInArrow",
      "MapPartitions",
      "MapPartitionsInRWithArrow",
      "MapPartitionsExternalUDF"
    ),
    stop(Reasons.GroupFunction)(
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
    stop(Reasons.TableFunction)("BatchEvalPythonUDTF", "ArrowEvalPythonUDTF"),
    stop(Reasons.TypedRows)(
      "DeserializeToObject",
      "SerializeFromObject",
      "MapElements",
      "AppendColumns",
      "AppendColumnsWithObject"
    ),
    stop(Reasons.Script)("SparkScriptTransformation", "HiveScriptTransformation"),
    stop(Reasons.Recursion)("UnionLoop"),
    stop(Reasons.Numbering)("AttachDistributedSequence")
  ).flatten.toMap

  /** Leaves of a plan that have no statistics: no filter can skip anything of them. */
  private val sources =
    Set("LocalTableScan", "RDDScan", "ExternalRDDScan", "Range", "OneRowRelation", "EmptyRelation", "CommandResult")

  private def nameOf(plan: SparkPlan): String = plan.getClass.getSimpleName.stripSuffix("Exec")

  def inTheWay(plan: SparkPlan): Reason = {
    def other = if (sources(nameOf(plan))) Reasons.NoStatistics(_) else Reasons.Operator(_)
    stops.getOrElse(nameOf(plan), other(plan.nodeName.trim))
  }

  /** The reasons of operators whose output for a row depends on the other rows of its partition. */
  private val ofPartitions =
    Set(Reasons.PartitionFunction, Reasons.TableFunction, Reasons.Script, Reasons.Numbering)

  /** Whether the operator's output for a row depends on the other rows of its partition. */
  def seesPartition(plan: SparkPlan): Boolean = plan match {
    case e: EvalPythonExec => e.udfs.exists(f => IteratorFunctions(f.evalType))
    case other => stops.get(nameOf(other)).exists(ofPartitions)
  }

  // By number: the constant for Arrow is new in Spark 4.1.
  private val IteratorFunctions = Set(204, 251) // SQL_SCALAR_PANDAS_ITER_UDF, SQL_SCALAR_ARROW_ITER_UDF
}
