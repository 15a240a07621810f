package org.dynamicfilters.state

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}

import org.apache.spark.util.AccumulatorV2
import org.scalatest.funsuite.AnyFunSuite
import org.dynamicfilters.scan.{ScanAccumulator, ScanCounter, ScanReport}

class AccumulatorsSuite extends AnyFunSuite {
  private val unsafe = {
    val field = classOf[sun.misc.Unsafe].getDeclaredField("theUnsafe")
    field.setAccessible(true)
    field.get(null).asInstanceOf[sun.misc.Unsafe]
  }

  private def sent[A](a: A): A = {
    val bytes = new ByteArrayOutputStream
    new ObjectOutputStream(bytes).writeObject(a)
    new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray)).readObject().asInstanceOf[A]
  }

  test("an accumulator of a task that is still being decoded is empty") {
    // Spark tells the task of it before its own fields are there; heartbeats then ask and send it.
    Seq(classOf[ResultItems[_]], classOf[ScanAccumulator], classOf[TopKAccumulator]).foreach { c =>
      val early = unsafe.allocateInstance(c).asInstanceOf[AccumulatorV2[_, Iterable[_]]]
      assert(early.isZero, c)
      assert(early.value.isEmpty, c)
      assert(early.copy().isZero, c)
      assert(sent(early).value.isEmpty, c)
    }
  }

  test("of the executions of a plan the newest are kept, whoever counted in them") {
    val all = new ScanAccumulator(_ => ())
    for (execution <- 1L to 20L; executor <- 1 to 3; _ <- 1 to 2) {
      val r = new ScanReport(execution, executor.toString)
      r.add(ScanCounter.Rows, 1)
      all.add(r)
    }
    assert(all.value.map(_.executionId).toSet == (5L to 20L).toSet)
    assert((5L to 20L).forall(all.report(_)(ScanCounter.Rows) == 6))
    all.reset()
    all.add(new ScanReport(3, "1"))
    assert(all.value.map(_.executionId) == Seq(3L))
  }
}
