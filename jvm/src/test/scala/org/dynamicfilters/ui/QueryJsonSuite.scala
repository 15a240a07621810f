package org.dynamicfilters.ui

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.execution.dynamicfilters.TestEvents
import org.apache.spark.util.kvstore.InMemoryStore
import org.dynamicfilters.report._
import org.scalatest.funsuite.AnyFunSuite

class QueryJsonSuite extends AnyFunSuite {
  private val query = QueryEntry(
    5,
    "a \"query\" <b>",
    "finished",
    1700000000000L,
    1700000001000L,
    Seq(FilterEntry("1", "topk", Seq("k"), "ready", "range", "k <= 3", 9, 27, "", 1700000000001L, 1700000000002L)),
    Seq(ScanEntry("2", "t", "parquet", Seq("1"), Seq(LevelEntry(LevelEntry.Rows, 1L << 40, 1L << 41)), 5)),
    Seq(RejectedEntry("join", Seq("j"), "too large")),
    3
  )

  private def json(q: QueryEntry): String = QueryJson.text(QueryJson.event(q).query)

  test("what is written is read") {
    assert(QueryJson.read(json(query)).contains(query))
    assert(QueryJson.read(json(QueryEntry(1))).contains(QueryEntry(1)))
  }

  test("only what the classes name is written") {
    val written = new ObjectMapper().readTree(json(query))
    assert(written.fieldNames.asScala.toSet == query.productElementNames.toSet)
    assert(written.get("filters").get(0).fieldNames.asScala.toSet == query.filters.head.productElementNames.toSet)
  }

  test("the log of another version is read as far as it can be") {
    val other =
      """{"executionId": 7, "new": [1], "filters": [{"id": "1", "newer": {}}, null], "scans": [{"id": "2"}]}"""
    val read = QueryJson.read(other).get
    assert(read.executionId == 7 && read.filters == Seq(FilterEntry("1")) && read.scans == Seq(ScanEntry("2")))
    // As null as a field or an element can be.
    val nulls =
      """{"executionId": 8, "description": null, "filters": null, "rejected": [{"columns": [null, "c"]}, null],
      "scans": [{"levels": [null, {"total": 3}], "skippedBy": null, "table": null}]}"""
    val empty = ScanEntry(levels = Seq(LevelEntry(total = 3)))
    assert(
      QueryJson
        .read(nulls)
        .contains(QueryEntry(8, rejected = Seq(RejectedEntry(columns = Seq("c"))), scans = Seq(empty)))
    )
    Seq("", "null", "[]", "7", """{"executionId": "x"}""", """{"executionId": 7, "filters": 3}""").foreach { bad =>
      assert(QueryJson.read(bad).isEmpty, bad)
    }
  }

  test("Spark writes the event to its log, and reads it there") {
    val line = TestEvents.toJson(QueryJson.event(query))
    assert(!line.contains("\n"))
    val e = TestEvents.fromJson(line).asInstanceOf[DynamicFiltersQueryEnd]
    assert(e.executionId == 5 && QueryJson.read(QueryJson.text(e.query)).contains(query))
    // Of a query that is no query, and with fields of later versions.
    val odd = s"""{"Event":"${classOf[DynamicFiltersQueryEnd].getName}","executionId":6,"query":[1,"x"],"later":{}}"""
    assert(TestEvents.fromJson(odd).asInstanceOf[DynamicFiltersQueryEnd].executionId == 6)
  }

  test("a Spark without these classes drops the event, and reads on") {
    val line = TestEvents.toJson(QueryJson.event(query)).replace("DynamicFiltersQueryEnd", "OfAnotherVersion")
    intercept[ClassNotFoundException](TestEvents.fromJson(line))
    val other = """{"Event":"SparkListenerLogStart","Spark Version":"4.1.0"}"""
    assert(TestEvents.replayed(Seq(other, line, other)) == 2)
  }

  test("a History Server finds this, and keeps the newest queries") {
    val events = (1L to 9L).map(id => QueryJson.event(query.copy(executionId = id)))
    val kept = new StoredQueries(TestEvents.history("spark.sql.ui.retainedExecutions" -> "4")(events)).newest(0, 100)
    assert(kept.map(_.executionId) == (9L to 6L by -1))
    assert(new StoredQueries(TestEvents.history()(events)).size == 9)
  }

  test("queries of a log are found in its store") {
    val kept = mutable.ArrayBuffer.empty[AnyRef]
    val listener = new HistoryListener(kept += _)
    val events = (1L to 3L).map(id => QueryJson.event(query.copy(executionId = id)))
    (events :+ DynamicFiltersQueryEnd(4, null) :+ new SparkListenerEvent {}).foreach(listener.onOtherEvent)
    val store = new InMemoryStore
    kept.foreach(store.write)
    val queries = new StoredQueries(store)
    assert(queries.size == 3)
    assert(queries.newest(0, 2).map(_.executionId) == Seq(3, 2))
    assert(queries.newest(2, 2).map(_.executionId) == Seq(1))
    assert(queries.find(2).map(_.copy(executionId = 5)).contains(query))
    assert(queries.find(9).isEmpty)
    // What fails is not shown, and that is all.
    new HistoryListener(_ => throw new IllegalStateException("full")).onOtherEvent(events.head)
  }
}
