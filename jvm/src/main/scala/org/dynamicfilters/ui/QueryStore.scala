package org.dynamicfilters.ui

import java.util.{Collections, WeakHashMap}

import scala.annotation.meta.getter
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.util.kvstore.{KVIndex, KVStore}
import org.dynamicfilters.report.{QueryReport, QueryReports}

/** The queries that pages show. */
trait QueryStore {

  /** Number of queries. */
  def size: Int

  /** A page of queries, newest first. */
  def newest(from: Int, most: Int): Seq[QueryEntry]
  def find(executionId: Long): Option[QueryEntry]
}

/** The queries of the running application whose reports are kept. */
final class LiveQueries(reports: QueryReports) extends QueryStore {
  override def size: Int = reports.ofInterest.size
  override def newest(from: Int, most: Int): Seq[QueryEntry] =
    reports.ofInterest.reverse.slice(from, from + most).map(EndedQueries.entryOf)
  override def find(executionId: Long): Option[QueryEntry] =
    reports.find(executionId).filter(_.isOfInterest).map(EndedQueries.entryOf)
}

/** The entries of ended queries, as written to the event log. A plan that runs often drops the counters of its first executions,
  * so an entry is made once. It is kept as long as the report.
  */
private[ui] object EndedQueries {
  private val entries = Collections.synchronizedMap(new WeakHashMap[QueryReport, QueryEntry])

  def add(report: QueryReport): QueryEntry = {
    val entry = QueryEntries.fromReport(report)
    entries.put(report, entry)
    entry
  }

  /** The kept entry, or the current state of a running query. */
  def entryOf(report: QueryReport): QueryEntry = Option(entries.get(report)).getOrElse(QueryEntries.fromReport(report))
}

/** A query in the History Server's store, in memory or on disk. */
final case class StoredQuery(@(KVIndex @getter) executionId: Long, json: String)

/** The queries of an application whose log was read. */
final class StoredQueries(store: KVStore) extends QueryStore {
  override def size: Int = store.count(classOf[StoredQuery]).toInt
  override def newest(from: Int, most: Int): Seq[QueryEntry] =
    Using.resource(store.view(classOf[StoredQuery]).reverse().skip(from.toLong).max(most.toLong).closeableIterator()) {
      _.asScala.flatMap(s => QueryJson.read(s.json)).toVector
    }
  override def find(executionId: Long): Option[QueryEntry] =
    try QueryJson.read(store.read(classOf[StoredQuery], executionId).json)
    catch { case _: NoSuchElementException => None }
}
