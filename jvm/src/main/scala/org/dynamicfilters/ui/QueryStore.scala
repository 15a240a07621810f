package org.dynamicfilters.ui

import scala.annotation.meta.getter
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.util.kvstore.{KVIndex, KVStore}
import org.dynamicfilters.report.{QueryEntry, QueryReports}

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
    reports.ofInterest.reverse.slice(from, from + most).map(_.entry)
  override def find(executionId: Long): Option[QueryEntry] =
    reports.find(executionId).filter(_.isOfInterest).map(_.entry)
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
