package org.dynamicfilters.tables

import org.apache.spark.sql.types.{LongType, StructField}
import org.dynamicfilters.filter.ColumnBounds
import org.scalatest.funsuite.AnyFunSuite

class TableStatisticsSuite extends AnyFunSuite {
  private val field = StructField("k", LongType)
  private def bounds(from: Long) = ColumnBounds(Long.box(from), Long.box(from + 9), false, true)
  private def files(names: Range) = names.map(i => s"file$i" -> bounds(i * 10L)).toMap
  private def names(range: Range) = files(range).keySet

  /** Asks, and tells whether the log was read. */
  private def ask(
      known: TableStatistics,
      version: Long,
      wanted: Set[String],
      log: LoggedBounds
  ): (LoggedBounds, Boolean) = {
    var wasRead = false
    val answer = known.bounds(("t", version), field, wanted) { wasRead = true; Some(log) }
    (answer, wasRead)
  }

  test("a version is read once") {
    val known = new TableStatistics(1000)
    val log = LoggedBounds(files(0 until 3), Map.empty)
    assert(ask(known, 1, names(0 until 3), log) == (log, true))
    assert(ask(known, 1, names(0 until 3), log) == (log, false))
  }

  test("another version is not read for one new file in a hundred, but for more") {
    val known = new TableStatistics(10000)
    val log = LoggedBounds(files(0 until 300), Map.empty)
    ask(known, 5, names(0 until 300), log)
    assert(ask(known, 6, names(0 until 303), log) == (log, false))
    assert(ask(known, 4, names(0 until 100), log) == (log, false))
    val more = LoggedBounds(files(0 until 310), Map.empty)
    assert(ask(known, 7, names(0 until 310), more) == (more, true))
    assert(ask(known, 7, names(0 until 310), more) == (more, false))
  }

  test("of a file with deleted rows another version may have more of them") {
    val known = new TableStatistics(1000)
    val log = LoggedBounds(files(0 until 2), files(2 until 3))
    ask(known, 5, names(0 until 3), log)
    val restored = LoggedBounds(files(0 until 2) + ("file2" -> bounds(0)), Map.empty)
    assert(ask(known, 6, names(0 until 3), restored) == (restored, true))
    assert(ask(known, 7, names(0 until 2), restored)._1.get("file2").contains(bounds(0)))
  }

  test("the nearest version is asked") {
    val known = new TableStatistics(1000)
    ask(known, 1, names(0 until 2), LoggedBounds(files(0 until 2), Map.empty))
    ask(known, 9, names(2 until 4), LoggedBounds(files(2 until 4), Map.empty))
    assert(!ask(known, 8, names(2 until 4), LoggedBounds.none)._2)
    assert(!ask(known, 2, names(0 until 2), LoggedBounds.none)._2)
  }

  test("other columns and tables have their own") {
    val known = new TableStatistics(1000)
    val log = LoggedBounds(files(0 until 2), Map.empty)
    ask(known, 1, names(0 until 2), log)
    val of = (id: String, f: StructField) =>
      known.bounds((id, 1L), f, names(0 until 2))(Some(LoggedBounds.none)) == LoggedBounds.none
    assert(of("u", field))
    assert(of("t", field.copy(name = "j")))
  }

  test("the least recently used are forgotten") {
    val known = new TableStatistics(25)
    val log = LoggedBounds(files(0 until 2), Map.empty)
    ask(known, 1, names(0 until 2), log)
    known.bounds(("u", 1), field, names(0 until 2))(Some(log))
    known.bounds(("v", 1), field, names(0 until 2))(Some(log))
    assert(ask(known, 1, names(0 until 2), log)._2)
    known.clear()
    assert(ask(known, 1, names(0 until 2), log)._2)
  }
}
