package org.dynamicfilters.exchange

import java.lang.management.ManagementFactory
import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}
import java.util.concurrent.atomic.{AtomicInteger, LongAdder}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.{KeyCollector, KeyDomain, KeyLimits}
import org.dynamicfilters.state.{Executions, FilterName, FilterSource, JoinPhase, JoinState, TopKSpec}

/** The real coordinator under the load of many executors: all parts are real but Spark's RPC, which is a call.
  *
  * Run by `make bench-coordinator`. Arguments: executors, partitions, seconds, limit of the TopK.
  */
object CoordinatorLoad {
  private val long = KeyDomain.forType(LongType).toOption.get
  private val threads = ManagementFactory.getThreadMXBean

  def main(args: Array[String]): Unit = {
    val numbers = args.map(_.toInt)
    def arg(i: Int, default: Int) = if (numbers.length > i) numbers(i) else default
    val (executors, partitions, seconds) = (arg(0, 1000), arg(1, 100000), arg(2, 20))
    Seq(10, 1000).foreach(k => topK(executors, partitions, seconds, if (numbers.length > 3) numbers(3) else k))
    join(executors, partitions, keys = 1000)
    join(executors, partitions, keys = 100000)
  }

  /** The driver's side: the coordinator on its own thread, as in [[DriverExchange]], and what it sends. */
  private final class Driver(filters: FilterSource, deliver: (Int, Array[Byte]) => Unit) {
    val counters = new ExchangeCounters
    val worker = new Worker("load", 50000, counters)
    private def send(peer: String, message: Array[Byte]): Boolean = {
      deliver(peer.toInt, message)
      true
    }
    val executions = new Executions(Long.MaxValue, () => System.nanoTime())
    val coordinator =
      new Coordinator(executions, filters, new Outbox(send, counters, () => System.nanoTime()), worker)
    def received(peer: Int, message: Array[Byte]): Unit =
      worker.later(0)(coordinator.received(peer.toString, message))

    def cpuNanos: Long = threads.getAllThreadIds.toSeq
      .filter(id => Option(threads.getThreadInfo(id)).exists(_.getThreadName == Worker.Prefix + "load"))
      .map(threads.getThreadCpuTime)
      .sum

    def idle(): Unit = {
      val done = new java.util.concurrent.CountDownLatch(1)
      worker.later(100)(done.countDown())
      done.await(60, TimeUnit.SECONDS)
    }
  }

  private def heap(): Long = {
    (1 to 3).foreach { _ => System.gc(); Thread.sleep(50) }
    ManagementFactory.getMemoryMXBean.getHeapMemoryUsage.getUsed
  }

  /** Each executor computes its partitions in turn, all over the given time; keys are random, so bounds get tighter ever more
    * seldom, as in a real scan.
    */
  private def topK(executors: Int, partitions: Int, seconds: Int, limit: Int): Unit = {
    val spec = TopKSpec(long, limit, ascending = true, nullsFirst = false, tiesFree = true)
    val filters = new FilterSource {
      override def topK(id: Long): Option[TopKSpec] = Some(spec)
      override def join(id: Long): Option[JoinState] = None
    }
    val pool = Executors.newSingleThreadScheduledExecutor { (r: Runnable) =>
      val t = new Thread(r); t.setDaemon(true); t
    }
    val links = new Array[ExecutorLink](executors)
    val updated = new ConcurrentHashMap[Int, java.lang.Long]()
    val driver = new Driver(
      filters,
      { (peer, message) => updated.put(peer, System.nanoTime()); links(peer).received(message) }
    )
    val sent = new LongAdder
    val shared = links.indices.map { i =>
      val executions = new Executions(Long.MaxValue, () => System.nanoTime())
      links(i) = new ExecutorLink(
        executions,
        { message => sent.increment(); driver.received(i, message) },
        new Schedule {
          override def later(millis: Long)(work: => Unit): Boolean = {
            pool.schedule((() => work): Runnable, millis, TimeUnit.MILLISECONDS)
            true
          }
        },
        new ExchangeCounters,
        () => System.nanoTime()
      )
      executions.connect(Some(links(i)))
      executions.open(1).flatMap(_.topK(FilterName(7, 1), spec)).get
    }
    val random = new java.util.Random(5)
    val from = System.nanoTime()
    val cpuFrom = driver.cpuNanos
    val half = new LongAdder
    var cpuHalf = 0L
    (0 until partitions).foreach { p =>
      val t = shared(p % executors)
      val bound = t.bound
      val best = Array.fill(2000)(random.nextLong() >>> 1).sorted.take(limit)
      val wanted = if (bound.isNone) best else best.filter(_ <= bound.key.asInstanceOf[java.lang.Long])
      t.put(p, p.toLong, wanted.map(Long.box(_): AnyRef))
      if (p == partitions / 2) { half.add(sent.sum); cpuHalf = driver.cpuNanos }
      val due = from + seconds * 1000000000L / partitions * p
      while (System.nanoTime() < due) Thread.onSpinWait()
    }
    driver.idle()
    val elapsed = (System.nanoTime() - from) / 1e9
    val cpu = driver.cpuNanos
    // One executor finds better rows than all others.
    updated.clear()
    val last = System.nanoTime()
    shared.head.put(partitions, partitions.toLong, Array.fill[AnyRef](limit)(Long.box(-1L)))
    while (updated.size < executors && System.nanoTime() - last < 10000000000L) Thread.sleep(1)
    val latency = (updated.values.asScala.map(_.longValue).max - last) / 1e6
    val c = driver.counters
    println(f"TopK, limit $limit: $executors executors, $partitions partitions in $elapsed%.1f s")
    println(
      f"  to the driver ${sent.sum / elapsed}%.0f messages/s, ${c(ExchangeCounter.receivedBytes) / elapsed / 1024}%.0f KiB/s; " +
        f"in the second half ${(sent.sum - half.sum) / (elapsed / 2)}%.0f messages/s"
    )
    println(
      f"  to executors ${c(ExchangeCounter.sent) / elapsed}%.0f messages/s, ${c(ExchangeCounter.sentBytes) / elapsed / 1024}%.0f KiB/s"
    )
    println(
      f"  driver: ${(cpu - cpuFrom) / 1e7 / elapsed}%.1f %% of a core, in the second half ${(cpu - cpuHalf) / 1e7 / (elapsed / 2)}%.1f %%; " +
        s"dropped ${c(ExchangeCounter.droppedOverload)}"
    )
    println(f"  from the last contribution to the last of ${updated.size} executors: $latency%.1f ms")
    println(f"  memory: ${held(driver)}%.1f MiB")
    driver.worker.stop()
    pool.shutdownNow()
  }

  /** What the coordinator holds, by what ending the execution frees. */
  private def held(driver: Driver): Double = {
    val before = heap()
    driver.executions.close(1)
    (before - heap()) / 1048576.0
  }

  /** All executors wait for a filter whose build side has so many partitions. */
  private def join(executors: Int, partitions: Int, keys: Int): Unit = {
    val limits = KeyLimits(10000000, 10000, 0.01, 8L << 20)
    val state = new JoinState(9, nullsMatch = false, limits)
    val filters = new FilterSource {
      override def topK(id: Long): Option[TopKSpec] = None
      override def join(id: Long): Option[JoinState] = Some(state)
    }
    val arrived = new AtomicInteger
    @volatile var last = 0L
    val driver = new Driver(filters, { (_, _) => last = System.nanoTime(); arrived.incrementAndGet() })
    (0 until executors).foreach(i => driver.received(i, MessageCodec.subscribe(1, FilterName(9, 0)).toByteArray))
    driver.idle()
    state.started(partitions)
    val before = heap()
    val partials = (0 until partitions).map { p =>
      val c = KeyCollector(long, limits, partitions)
      (0 until math.max(1, keys / partitions)).foreach(i => c.add(InternalRow((p.toLong * 37 + i) % (keys * 5L)), 0))
      c.result().encode
    }
    partials.indices.init.foreach(p => state.offer(p, partials(p), outgrown = false))
    val memory = (heap() - before) / 1048576.0
    val cpuFrom = driver.cpuNanos
    val from = System.nanoTime()
    state.offer(partitions - 1, partials.last, outgrown = false)
    while (arrived.get < executors && System.nanoTime() - from < 60000000000L) Thread.sleep(1)
    println(
      f"join: $executors executors, $partitions partitions, ${state.phase.asInstanceOf[JoinPhase.Ready].bytes} bytes of filter"
    )
    println(
      f"  from the last partition to the last of ${arrived.get} executors: ${(last - from) / 1e6}%.0f ms, " +
        f"driver ${(driver.cpuNanos - cpuFrom) / 1e6}%.0f ms of CPU, ${driver.counters(ExchangeCounter.sentBytes) / 1024}%d KiB sent, " +
        f"partitions held $memory%.1f MiB"
    )
    driver.worker.stop()
  }
}
