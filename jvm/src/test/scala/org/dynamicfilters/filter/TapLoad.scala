package org.dynamicfilters.filter

import java.lang.management.ManagementFactory

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * What collecting the keys of a build side costs, without the build side: processor time of the thread, in nanoseconds a row,
 * of tasks (up to the bytes that they send) and of the driver's merge.
 *
 * A program, not a test: `sbt "jvm/Test/runMain org.dynamicfilters.filter.TapLoad"`. To compare two versions, run the classes
 * of each in turn. Arguments: rounds (7), then names of cases (all).
 */
object TapLoad {
  private val rows = 3000000
  private val partitions = 12
  private val limits =
    KeyLimits(maxRows = 2000000, inMaxValues = 10000, bloomFpp = 0.01, maxFilterBytes = 8L << 20)
  private val random = new Random(17)
  private val threads = ManagementFactory.getThreadMXBean.asInstanceOf[com.sun.management.ThreadMXBean]

  private final case class Case(
      name: String,
      dataType: DataType,
      values: Int => Any,
      rows: Int = rows,
      limits: KeyLimits = limits
  )

  private def known(n: Int): Int => Any = {
    val all = Array.fill(n)(random.nextLong())
    _ => all(random.nextInt(n))
  }

  private def texts(n: Int): Int => Any = {
    val all = Array.tabulate(n)(i => UTF8String.fromString(s"customer-${i * 7919L % n}"))
    _ => all(random.nextInt(n))
  }

  private val cases = Seq(
    Case("far, all different", LongType, _ => random.nextLong()),
    Case("far, the range alone", LongType, _ => random.nextLong(), limits = limits.copy(maxFilterBytes = 1)),
    Case("far, 1M that are kept", LongType, _ => random.nextLong(), 1000000),
    Case("dense, all different", LongType, _.toLong),
    Case("dense, in no order", LongType, i => (i.toLong * 1000003L) % rows),
    Case("100 different", LongType, known(100)),
    Case("10,000 different", LongType, known(10000)),
    Case("100,000 different", LongType, known(100000)),
    Case("strings, all different", StringType, i => UTF8String.fromString(s"customer-$i")),
    Case("strings, 100 different", StringType, texts(100)),
    Case("strings, 50,000 different", StringType, texts(50000))
  )

  def main(args: Array[String]): Unit = {
    val rounds = args.headOption.fold(7)(_.toInt)
    val wanted = args.drop(1)
    cases.filter(c => wanted.isEmpty || wanted.contains(c.name)).foreach(measure(_, rounds))
  }

  private def measure(c: Case, rounds: Int): Unit = {
    val domain = KeyDomain.forType(c.dataType).fold(r => sys.error(r.text), identity)
    val each = c.rows / partitions
    // As operators have them: one row object whose bytes change.
    val codes = if (c.dataType == LongType) Array.tabulate(c.rows)(i => c.values(i).asInstanceOf[Long]) else null
    val texts = if (codes == null) Array.tabulate(c.rows)(i => c.values(i).asInstanceOf[UTF8String]) else null
    val unsafe = UnsafeProjection.create(Array[DataType](LongType))(InternalRow(0L)).asInstanceOf[UnsafeRow]
    val generic = new GenericInternalRow(1)

    def pass(use: (InternalRow, Int) => Unit): Unit = {
      var i = 0
      while (i < c.rows) {
        if (codes != null) {
          unsafe.setLong(0, codes(i))
          use(unsafe, i)
        } else {
          generic.update(0, texts(i))
          use(generic, i)
        }
        i += 1
      }
    }

    val collected, merged, allocated = Array.newBuilder[Double]
    var form = ""
    (0 until rounds + 3).foreach { round =>
      var nothing = 0L
      val idle = timed(pass((row, _) => if (row.isNullAt(0)) nothing += 1))
      val sent = Array.newBuilder[Array[Byte]]
      var collector: KeyCollector = null
      val tasks = timed {
        pass { (row, i) =>
          if (i % each == 0) {
            if (collector != null) sent += collector.result().encode
            collector = KeyCollector(domain, c.limits, partitions)
          }
          collector.add(row, 0)
        }
        sent += collector.result().encode
      }
      val parts = sent.result()
      val before = threads.getThreadAllocatedBytes(Thread.currentThread.getId)
      val driver = timed {
        form = KeyPartial
          .build(parts.toSeq.map(KeyPartial.decode(_).fold(r => sys.error(r.text), identity)), c.limits, false)
          .filter
          .form
      }
      if (round >= 3) {
        collected += (tasks - idle) / c.rows.toDouble
        merged += driver / c.rows.toDouble
        allocated += (threads.getThreadAllocatedBytes(Thread.currentThread.getId) - before) / 1048576.0
      }
    }
    println(
      f"${c.name}%-28s tasks ${median(collected.result())}%7.1f ns a row, driver ${median(merged.result())}%6.1f ns a row, " +
        f"${median(allocated.result())}%6.1f MiB, $form"
    )
  }

  private def median(xs: Array[Double]): Double = xs.sorted.apply(xs.length / 2)

  private def timed(body: => Unit): Long = {
    val before = threads.getCurrentThreadCpuTime
    body
    threads.getCurrentThreadCpuTime - before
  }
}
