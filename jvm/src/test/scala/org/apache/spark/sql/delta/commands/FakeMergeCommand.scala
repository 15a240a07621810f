package org.apache.spark.sql.delta.commands

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.command.LeafRunnableCommand

/** As Delta's MERGE: what it reads is none of its children. */
final case class FakeMergeCommand(source: LogicalPlan, target: LogicalPlan, name: String, evolves: Boolean)
    extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = Nil
}
