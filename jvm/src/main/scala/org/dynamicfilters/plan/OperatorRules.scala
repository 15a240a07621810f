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

  /** @param inTheWay the reason
    * @param seesPartition whether the operator's output for a row depends on the other rows of its partition
    */
  private[plan] final case class Stop(inTheWay: Reason, seesPartition: Boolean)

  private def stop(inTheWay: Reason, seesPartition: Boolean = false)(names: String*): Seq[(String, Stop)] =
    names.map(_ -> Stop(inTheWay, seesPartition))

  /** By the simple class name without `Exec`: not every Spark line has all classes. */
  private[plan] val stops: Map[String, Stop] = Seq(
    stop(Reasons.Sample)("Sample"),
    stop(Reasons.Limit)("LocalLimit", "GlobalLimit", "CollectLimit", "CollectTail", "TakeOrderedAndProject"),
    stop(Reasons.Metrics)("CollectMetrics"),
    stop(Reasons.AsOfJoin)("SortMergeAsOfJoin"),
    stop(Reasons.CartesianProduct)("CartesianProduct"),
    stop(Reasons.PartitionFunction, seesPartition = true)(
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
    stop(Reasons.TableFunction, seesPartition = true)("BatchEvalPythonUDTF", "ArrowEvalPythonUDTF"),
    stop(Reasons.TypedRows)(
      "DeserializeToObject",
      "SerializeFromObject",
      "MapElements",
      "AppendColumns",
      "AppendColumnsWithObject"
    ),
    stop(Reasons.Script, seesPartition = true)("SparkScriptTransformation", "HiveScriptTransformation"),
    stop(Reasons.Recursion)("UnionLoop"),
    stop(Reasons.Numbering, seesPartition = true)("AttachDistributedSequence")
  ).flatten.toMap

  /** Leaves of a plan that have no statistics: no filter can skip anything of them. */
  private val sources =
    Set("LocalTableScan", "RDDScan", "ExternalRDDScan", "Range", "OneRowRelation", "EmptyRelation", "CommandResult")

  private def nameOf(plan: SparkPlan): String = plan.getClass.getSimpleName.stripSuffix("Exec")
  private def stopOf(plan: SparkPlan): Option[Stop] = stops.get(nameOf(plan))

  def inTheWay(plan: SparkPlan): Reason = {
    def other = if (sources(nameOf(plan))) Reasons.NoStatistics(_) else Reasons.Operator(_)
    stopOf(plan).fold(other(plan.nodeName.trim))(_.inTheWay)
  }

  /** Whether the operator's output for a row depends on the other rows of its partition. */
  def seesPartition(plan: SparkPlan): Boolean = plan match {
    case e: EvalPythonExec => e.udfs.exists(f => IteratorFunctions(f.evalType))
    case other => stopOf(other).exists(_.seesPartition)
  }

  // By number: the constant for Arrow is new in Spark 4.1.
  private val IteratorFunctions = Set(204, 251) // SQL_SCALAR_PANDAS_ITER_UDF, SQL_SCALAR_ARROW_ITER_UDF
}
