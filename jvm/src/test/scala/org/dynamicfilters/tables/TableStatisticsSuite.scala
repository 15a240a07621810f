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
    val answer = known.bounds(("t", version), Seq(field), wanted) { fields =>
      wasRead = true
      fields.map(_ -> log).toMap
    }
    (answer(field), wasRead)
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
      known.bounds((id, 1L), Seq(f), names(0 until 2))(_ => Map.empty) == Map(f -> LoggedBounds.none)
    assert(of("u", field))
    assert(of("t", field.copy(name = "j")))
  }

  test("the log is read once for all columns of which nothing is known") {
    val known = new TableStatistics(1000)
    val log = LoggedBounds(files(0 until 2), Map.empty)
    ask(known, 1, names(0 until 2), log)
    val others = Seq(field.copy(name = "i"), field.copy(name = "j"))
    var asked = Seq.empty[Seq[StructField]]
    def all = known.bounds(("t", 1), field +: others :+ field, names(0 until 2)) { fields =>
      asked :+= fields
      Map(others.head -> log)
    }
    for (_ <- 1 to 2)
      assert(all == Map(field -> log, others.head -> log, others.last -> LoggedBounds.none))
    assert(asked == Seq(others))
  }

  test("the log of a large table is not read for a few files") {
    val known = new TableStatistics(1000)
    def bounds(wanted: Int, ofTable: Long) = {
      var wasRead = false
      known.bounds(("t", 1), Seq(field), names(0 until wanted), Some(ofTable)) { _ =>
        wasRead = true
        Map.empty
      }
      known.clear()
      wasRead
    }
    assert(!bounds(10, 50000))
    assert(bounds(1000, 50000) && bounds(3, 3))
  }

  test("the least recently used are forgotten") {
    val known = new TableStatistics(25)
    val log = LoggedBounds(files(0 until 2), Map.empty)
    ask(known, 1, names(0 until 2), log)
    known.bounds(("u", 1), Seq(field), names(0 until 2))(_ => Map(field -> log))
    known.bounds(("v", 1), Seq(field), names(0 until 2))(_ => Map(field -> log))
    assert(ask(known, 1, names(0 until 2), log)._2)
    known.clear()
    assert(ask(known, 1, names(0 until 2), log)._2)
  }
}
