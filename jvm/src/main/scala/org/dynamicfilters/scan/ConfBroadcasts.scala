package org.dynamicfilters.scan

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.util.SerializableConfiguration

/** Caches broadcasts of Hadoop configurations, for scans whose Spark reader does not expose its own broadcast. Creating
  * one takes 2 ms, and the configurations of a session's queries are mostly equal. Spark's ContextCleaner removes a
  * broadcast that is neither cached nor used.
  */
object ConfBroadcasts {
  private type Values = Map[String, String]
  private val Most = 8

  private val kept = new JLinkedHashMap[Values, Broadcast[SerializableConfiguration]](Most, 0.75f, true) {
    override def removeEldestEntry(e: JMap.Entry[Values, Broadcast[SerializableConfiguration]]): Boolean = size > Most
  }

  def get(sc: SparkContext, conf: Configuration): Broadcast[SerializableConfiguration] = synchronized {
    val values = conf.iterator.asScala.map(e => e.getKey -> e.getValue).toMap
    kept.computeIfAbsent(values, _ => sc.broadcast(new SerializableConfiguration(conf)))
  }

  /** Drops all, at the end of the application. */
  def clear(): Unit = synchronized(kept.clear())
}
