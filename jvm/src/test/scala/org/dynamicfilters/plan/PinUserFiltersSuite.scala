package org.dynamicfilters.plan

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, OneRowRelation}
import org.apache.spark.sql.delta.commands.FakeMergeCommand
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.{KeyDomain, ValueFilter}
import org.dynamicfilters.user.{DynamicFilterPredicate, UserFilters}
import org.scalatest.funsuite.AnyFunSuite

/** As the commands of views. */
final case class FakeViewCommand(plan: LogicalPlan) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = Nil
}

/** Which plans of a command get one generation when it starts. */
class PinUserFiltersSuite extends AnyFunSuite {
  private val session = SparkTests.session
  private val (id, name) = (SparkAccess.sessionId(session), "pinned")

  private def reading: LogicalPlan =
    Filter(DynamicFilterPredicate(name, id, follows = false, LongType, None, Literal(1L)), OneRowRelation())
  private def pins(plan: LogicalPlan) = DynamicFilterPredicate.pinnedIn(plan).map(_.pin.map(_.number))

  test("Delta's MERGE reads its source and its target with one generation, other commands keep their plans") {
    UserFilters.create(session, name, KeyDomain.forType(LongType).toOption.get, "token")
    try {
      UserFilters.open(id, name).update(ValueFilter.Nothing)
      PinUserFilters(FakeMergeCommand(reading, reading, "m", evolves = true)) match {
        case FakeMergeCommand(source, target, "m", true) =>
          assert(Seq(source, target).flatMap(pins).distinct.size == 1)
          assert((pins(source) ++ pins(target)).forall(_.isDefined))
        case other => fail(other.toString)
      }
      assert(pins(PinUserFilters(FakeViewCommand(reading)).asInstanceOf[FakeViewCommand].plan) == Seq(None))
      assert(pins(PinUserFilters(reading)).forall(_.isDefined))
    } finally UserFilters.close(id, name, "token")
  }
}
