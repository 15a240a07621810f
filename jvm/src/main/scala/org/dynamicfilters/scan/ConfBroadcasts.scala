package org.dynamicfilters.scan

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.util.SerializableConfiguration

/** Hadoop configurations as broadcasts, where that of Spark's reader is not found. To serialize and compress one takes some
  * 2 ms, and those of a session's queries are alike: the newest few are kept. What is forgotten is removed by Spark's cleaner
  * once no query needs it.
  */
object ConfBroadcasts {
  private type Values = Map[String, String]
  private val Most = 8

  private val kept = new JLinkedHashMap[Values, Broadcast[SerializableConfiguration]](Most, 0.75f, true) {
    override def removeEldestEntry(e: JMap.Entry[Values, Broadcast[SerializableConfiguration]]): Boolean = size > Most
  }

  def of(sc: SparkContext, conf: Configuration): Broadcast[SerializableConfiguration] = synchronized {
    val values = conf.iterator.asScala.map(e => e.getKey -> e.getValue).toMap
    kept.computeIfAbsent(values, _ => sc.broadcast(new SerializableConfiguration(conf)))
  }

  /** The application has ended, and its broadcasts with it. */
  def clear(): Unit = synchronized(kept.clear())
}
