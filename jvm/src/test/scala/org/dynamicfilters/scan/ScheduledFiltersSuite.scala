package org.dynamicfilters.scan

import scala.util.control.ControlThrowable

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, BoundReference, ExprId}
import org.apache.spark.sql.execution.LocalTableScanExec
import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.{KeyCollector, KeyDomain, KeyLimits, ValueFilter}
import org.dynamicfilters.plan.SparkTests
import org.dynamicfilters.state.{JoinRef, ReadPlace}
import org.scalatest.funsuite.AnyFunSuite

/** The filters of a partition whose rows go into a shuffle, from attempt to attempt. */
class ScheduledFiltersSuite extends AnyFunSuite with SparkTests {
  import ScheduledFiltersSuite._

  test(
    "an attempt that cannot follow a file's row groups fails where an earlier one took newer filters inside the file"
  ) {
    val sc = spark.sparkContext
    val ref = joinFilter()
    completes = () => complete(ref)
    val sent = SentFilters(sc, IndexedSeq(ref), IndexedSeq(None), isShown = true)
    val column = ScanColumn(ref, domain, "k", 0, -1, ScanPlace.near)
    def inTask[A: scala.reflect.ClassTag](body: ScheduledFilters => A): A =
      sc.parallelize(Seq(1), 1)
        .map(_ =>
          body(
            new ScheduledFilters(Vector(column), sent, sent.snapshots.get, Vector.empty, TaskContext.get())
          )
        )
        .collect()
        .head

    val first = inTask { f =>
      f.startPartition(0)
      f.advance(ReadPlace(1, 0), news = false)
      val before = f(0)
      completes()
      f.advance(ReadPlace(1, 4), news = true)
      (before == ValueFilter.All, f(0) == ValueFilter.All)
    }
    assert(first == (true, false))
    val (inside, after) = inTask { f =>
      f.startPartition(0)
      f.advance(ReadPlace(1, 0), news = false)
      val inside =
        try { f.readWholeFile(); "went on" }
        catch { case e: ControlThrowable => e.getMessage }
      f.advance(ReadPlace(2, 0), news = false)
      f.readWholeFile()
      (inside, f(0) == ValueFilter.All)
    }
    assert(inside.contains("an earlier attempt followed the row groups"))
    assert(!after)
  }
}

object ScheduledFiltersSuite {
  private val domain = KeyDomain.forType(LongType).toOption.get
  private val limits = KeyLimits(maxRows = 1000, inMaxValues = 100, bloomFpp = 0.01, maxFilterBytes = 1 << 20)

  // Tasks run in this process, but what they are given is a copy.
  @volatile private var completes: () => Unit = _

  private def joinFilter(): JoinRef = {
    val build = LocalTableScanExec(Seq(AttributeReference("j", LongType)(ExprId(0))), Nil, None)
    val key = BoundReference(0, LongType, nullable = true)
    JoinRef("k=j", build, key, nullsMatch = false, limits)
  }

  private def complete(ref: JoinRef): Unit = {
    val c = KeyCollector(domain, limits, 2)
    c.add(InternalRow(7L), 0)
    ref.state.started(1)
    ref.state.offer(0, c.result().encode, outgrown = false)
  }
}
