package org.dynamicfilters.scan

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, BoundReference, ExprId}
import org.apache.spark.sql.execution.LocalTableScanExec
import org.apache.spark.sql.types.{LongType, StructType}
import org.dynamicfilters.filter.{KeyCollector, KeyDomain, KeyLimits, ValueFilter}
import org.dynamicfilters.plan.SparkTests
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state.{Executions, JoinRef, NoTables, TaskFilters}
import org.scalatest.funsuite.AnyFunSuite

/** Tests of rows that cost a task more than they save. */
class TaskBudgetsSuite extends AnyFunSuite with SparkTests {
  import TaskBudgetsSuite._

  /** After each step, whether rows are tested; and the reasons at the end. */
  private def run(giveUp: Double)(steps: (TaskScan => Unit)*): (Seq[Boolean], Seq[String]) = {
    val ref = joinFilter()
    val spec = specOf(ref, giveUp)
    val ready = SentFilters(spark.sparkContext, IndexedSeq(ref), IndexedSeq(ref.state.named), isShown = false)
    val execution = executions.incrementAndGet()
    spark.sparkContext.setLocalProperty(TaskFilters.ExecutionIdProperty, execution.toString)
    try
      spark.sparkContext
        .parallelize(Seq(1), 1)
        .map { _ =>
          val task = new TaskScan(spec, ready, TaskContext.get(), _ => ())
          val tested = steps.map { step =>
            step(task)
            assert(task.filters()(0) != ValueFilter.All, "row groups are left out by it all the same")
            task.rowTests.takesNext(0)
          }
          (tested, task.report.reasons.keys.toSeq)
        }
        .collect()
        .head
    finally {
      spark.sparkContext.setLocalProperty(TaskFilters.ExecutionIdProperty, null)
      Executions.instance.close(execution)
    }
  }

  test("a filter that is over its budget tests no more rows, until work went on without it") {
    val (tested, reasons) = run(0.6)(
      _ => (),
      dear(_),
      _.rowTests.recordRowGroupTime(100 * Millis),
      _.rowTests.recordRowGroupTime(5000 * Millis)
    )
    assert(tested == Seq(true, false, false, true))
    assert(reasons == Seq(Reasons.RowsNotTested.text))
  }

  test("a filter whose rows would have cost more is not over its budget") {
    val (tested, reasons) = run(0.6) { t =>
      t.rowTests(0, before = 1000, after = 400, nanos = 50 * Millis)
      t.rowTests.recordRowGroupTime(100 * Millis)
    }
    assert(tested == Seq(true) && reasons.isEmpty)
  }

  test("selectivity.giveUp = 1 has no budget") {
    assert(run(1)(dear(_)) == ((Seq(true), Nil)))
  }
}

object TaskBudgetsSuite {
  private val Millis = 1000000L

  // None that Spark uses.
  private val executions = new java.util.concurrent.atomic.AtomicLong(1L << 40)
  private val domain = KeyDomain.forType(LongType).toOption.get
  private val limits = KeyLimits(maxRows = 1000, inMaxValues = 100, bloomFpp = 0.01, maxFilterBytes = 1 << 20)

  private def dear(t: TaskScan): Unit = {
    t.rowTests(0, before = 1000, after = 900, nanos = 50 * Millis)
    t.rowTests.recordRowGroupTime(100 * Millis)
  }

  private def joinFilter(): JoinRef = {
    val build = LocalTableScanExec(Seq(AttributeReference("j", LongType)(ExprId(0))), Nil, None)
    val key = BoundReference(0, LongType, nullable = true)
    val ref = JoinRef("k=j", build, key, nullsMatch = false, limits, new NoTables)
    val c = KeyCollector(domain, limits, 2)
    c.add(InternalRow(7L), 0)
    ref.state.started(1)
    ref.state.offer(0, c.result().encode, outgrown = false)
    ref
  }

  private def specOf(ref: JoinRef, giveUp: Double) = new ScanSpec(
    ScanSpec.nextId(),
    new StructType().add("k", LongType),
    IndexedSeq(ScanColumn(ref, domain, "k", 0, -1, ScanPlace(crossesExchange = false, Wait.No))),
    Nil,
    "",
    true,
    giveUp
  )
}
