package org.dynamicfilters.state

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}

import org.apache.spark.util.AccumulatorV2
import org.dynamicfilters.scan.ScanAccumulator
import org.scalatest.funsuite.AnyFunSuite

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
}
