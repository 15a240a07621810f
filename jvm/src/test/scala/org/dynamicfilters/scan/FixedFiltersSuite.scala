package org.dynamicfilters.scan

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, BoundReference, ExprId}
import org.apache.spark.sql.execution.LocalTableScanExec
import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.{KeyCollector, KeyDomain, KeyLimits, ValueFilter}
import org.dynamicfilters.plan.SparkTests
import org.dynamicfilters.state.{JoinRef, NoTables}
import org.scalatest.funsuite.AnyFunSuite

/** The filters of partitions whose rows go into an exchange, in one task. */
class FixedFiltersSuite extends AnyFunSuite with SparkTests {
  import FixedFiltersSuite._

  test("a partition keeps its filters; one that starts later, also in the same task, has the newest") {
    val sc = spark.sparkContext
    val ref = joinFilter()
    completes = () => complete(ref)
    val sent = SentFilters(sc, IndexedSeq(ref), IndexedSeq(None), isShown = true)
    val column = ScanColumn(ref, domain, "k", 0, -1, ScanPlace(crossesExchange = false, Wait.No))
    val passAll = sc
      .parallelize(Seq(1), 1)
      .map { _ =>
        val f = new ScanFilters(Vector(column), sent, TaskContext.get())
        def passesAll = f(0) == ValueFilter.All
        f.startPartition(0)
        val before = passesAll
        completes()
        val after = passesAll
        f.startPartition(1)
        val next = passesAll
        f.startPartition(0)
        Seq(before, after, next, passesAll)
      }
      .repartition(1)
      .collect()
      .head
    assert(passAll == Seq(true, true, false, true))
  }
}

object FixedFiltersSuite {
  private val domain = KeyDomain.forType(LongType).toOption.get
  private val limits = KeyLimits(maxRows = 1000, inMaxValues = 100, bloomFpp = 0.01, maxFilterBytes = 1 << 20)

  // Tasks run in this process, but what they are given is a copy.
  @volatile private var completes: () => Unit = _

  private def joinFilter(): JoinRef = {
    val build = LocalTableScanExec(Seq(AttributeReference("j", LongType)(ExprId(0))), Nil, None)
    val key = BoundReference(0, LongType, nullable = true)
    JoinRef("k=j", build, key, nullsMatch = false, limits, new NoTables)
  }

  private def complete(ref: JoinRef): Unit = {
    val c = KeyCollector(domain, limits, 2)
    c.add(InternalRow(7L), 0)
    ref.state.started(1)
    ref.state.offer(0, c.result().encode, outgrown = false)
  }
}
