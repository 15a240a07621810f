package org.dynamicfilters.plan

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.EvalPythonExec

/** Text for reasons of the Spark operators that stop filters.
  *
  * [[PushDown]] lists the operators that let filters pass. An operator in neither list also stops a filter, as "the operator X".
  * docs/operators.md lists all operators; tests compare it with this list and with the classes of each Spark line.
  */
private[plan] object OperatorRules {

  /** @param inTheWay
    *   as in "a sample is in the way"
    * @param seesPartition
    *   whether the operator's output for a row depends on the other rows of its partition
    */
  private[plan] final case class Stop(inTheWay: String, seesPartition: Boolean)

  private def stop(inTheWay: String, seesPartition: Boolean = false)(names: String*): Seq[(String, Stop)] =
    names.map(_ -> Stop(inTheWay, seesPartition))

  /** By the simple class name without `Exec`: not every Spark line has all classes. */
  private[plan] val stops: Map[String, Stop] = Seq(
    stop("a sample")("Sample"),
    stop("a limit")("LocalLimit", "GlobalLimit", "CollectLimit", "CollectTail", "TakeOrderedAndProject"),
    stop("observed metrics")("CollectMetrics"),
    stop("an as-of join")("SortMergeAsOfJoin"),
    stop("a cartesian product")("CartesianProduct"),
    stop("a function of whole partitions", seesPartition = true)(
      "MapInPandas",
      "MapInArrow",
      "MapPartitions",
      "MapPartitionsInRWithArrow",
      "MapPartitionsExternalUDF"
    ),
    stop("a function of whole groups")(
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
    stop("a Python table function", seesPartition = true)("BatchEvalPythonUDTF", "ArrowEvalPythonUDTF"),
    stop("a function of typed rows")(
      "DeserializeToObject",
      "SerializeFromObject",
      "MapElements",
      "AppendColumns",
      "AppendColumnsWithObject"
    ),
    stop("a script", seesPartition = true)("SparkScriptTransformation", "HiveScriptTransformation"),
    stop("a recursive table expression")("UnionLoop"),
    stop("a numbering of rows", seesPartition = true)("AttachDistributedSequence")
  ).flatten.toMap

  private def stopOf(plan: SparkPlan): Option[Stop] = stops.get(plan.getClass.getSimpleName.stripSuffix("Exec"))

  /** The reason's subject; None for "the operator X". */
  def inTheWay(plan: SparkPlan): Option[String] = stopOf(plan).map(_.inTheWay)

  /** Whether the operator's output for a row depends on the other rows of its partition. */
  def seesPartition(plan: SparkPlan): Boolean = plan match {
    case e: EvalPythonExec => e.udfs.exists(f => IteratorFunctions(f.evalType))
    case other => stopOf(other).exists(_.seesPartition)
  }

  // By number: the constant for Arrow is new in Spark 4.1.
  private val IteratorFunctions = Set(204, 251) // SQL_SCALAR_PANDAS_ITER_UDF, SQL_SCALAR_ARROW_ITER_UDF
}
