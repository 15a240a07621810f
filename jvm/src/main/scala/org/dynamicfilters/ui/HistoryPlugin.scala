package org.dynamicfilters.ui

import scala.jdk.CollectionConverters._
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.execution.dynamicfilters.UiAccess
import org.apache.spark.util.kvstore.KVStore

/** The tab in the History Server. The jar must be on the server's class path. */
final class HistoryPlugin extends UiAccess.HistoryPart {
  override protected def listener(keep: AnyRef => Unit): SparkListener = new HistoryListener(keep)

  /** The same bound as Spark's SQL tab has. */
  override protected def bound(conf: SparkConf, store: KVStore): UiAccess.Bound = {
    val most = conf.getLong("spark.sql.ui.retainedExecutions", 1000)
    def drop(count: Long): Unit = if (count > most) {
      val oldest = Using.resource(store.view(classOf[StoredQuery]).max(count - most).closeableIterator()) {
        _.asScala.map(_.executionId).toVector
      }
      oldest.foreach(id => store.delete(classOf[StoredQuery], id))
    }
    UiAccess.Bound(classOf[StoredQuery], most, drop)
  }

  override protected def tab(store: KVStore): (String, String, Seq[UiAccess.Page]) =
    (DynamicFiltersTab.Name, DynamicFiltersTab.Prefix, DynamicFiltersTab.pages(new StoredQueries(store)))
}

/** Stores the queries of an event log. A query that cannot be read is left out. */
final class HistoryListener(keep: AnyRef => Unit) extends SparkListener with Logging {
  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case e: DynamicFiltersQueryEnd if e.query != null =>
      try keep(StoredQuery(e.executionId, QueryJson.text(e.query)))
      catch { case NonFatal(x) => logWarning(s"Dynamic filters: query ${e.executionId} is not shown", x) }
    case _ =>
  }
}
