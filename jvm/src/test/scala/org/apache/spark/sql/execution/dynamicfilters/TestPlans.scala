package org.apache.spark.sql.execution.dynamicfilters

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.Dataset

/** DataFrames of logical plans, which only Spark's own packages can make. */
object TestPlans {
  def dataFrame(spark: SparkSession, plan: LogicalPlan): DataFrame =
    Dataset.ofRows(spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession], plan)

  def logical(df: DataFrame): LogicalPlan = df.asInstanceOf[Dataset[_]].queryExecution.analyzed
}
