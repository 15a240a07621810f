package org.apache.spark.sql.execution.dynamicfilters

import java.io.ByteArrayInputStream
import java.nio.charset.StandardCharsets.UTF_8
import java.util.ServiceLoader

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkConf
import org.apache.spark.scheduler.{ReplayListenerBus, SparkListener, SparkListenerEvent}
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.util.JsonProtocol
import org.apache.spark.util.kvstore.{InMemoryStore, KVStore}

/** Events as Spark's log has them. */
object TestEvents {
  def toJson(event: SparkListenerEvent): String = JsonProtocol.sparkEventToJsonString(event)
  def fromJson(line: String): SparkListenerEvent = JsonProtocol.sparkEventFromJson(line)

  /** The store of a History Server that finds its parts as it does, after some events. */
  def history(settings: (String, String)*)(events: Seq[SparkListenerEvent]): KVStore = {
    val conf = new SparkConf(false).setAll(settings).set("spark.appStateStore.asyncTracking.enable", "false")
    val inMemory = new InMemoryStore
    val store = new ElementTrackingStore(inMemory, conf)
    val ours = ServiceLoader.load(classOf[AppHistoryServerPlugin]).asScala.collect { case p: UiAccess.HistoryPart => p }
    val listeners = ours.flatMap(_.createListeners(conf, store)).toSeq
    require(listeners.size == 1, listeners)
    events.foreach(listeners.head.onOtherEvent)
    inMemory
  }

  /** How many lines of a log reach a listener. */
  def replayed(lines: Seq[String]): Int = {
    var seen = 0
    val bus = new ReplayListenerBus
    bus.addListener(new SparkListener {
      override def onOtherEvent(event: SparkListenerEvent): Unit = seen += 1
    })
    require(bus.replay(new ByteArrayInputStream(lines.mkString("\n").getBytes(UTF_8)), "test"))
    seen
  }
}
