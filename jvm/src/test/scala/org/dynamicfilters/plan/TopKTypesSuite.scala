package org.dynamicfilters.plan

import org.scalatest.funsuite.AnyFunSuite

/** Equal rows with and without filters, for every type, direction and order of nulls. */
class TopKTypesSuite extends AnyFunSuite with SparkTests {
  private val rows = 4000

  // Values rise and fall with the row number, so that row groups differ; n is null where a row's key is.
  private val n = "if(id % 11 = 3, null, (id * 7 + id % 100 * 13) % 4001 - 2000)"
  private val types: Seq[(String, String)] = Seq(
    "boolean" -> "n % 2 = 0",
    "tinyint" -> "cast(n % 128 as tinyint)",
    "smallint" -> "cast(n * 16 as smallint)",
    "int" -> "cast(case when n = 2000 then 2147483647 when n = -2000 then -2147483648 else n end as int)",
    "bigint" -> "case when n > 1998 then 9223372036854775807 when n < -1998 then -9223372036854775808 else n * 1000000007 end",
    "float" -> "case when n % 50 = 0 then float('NaN') when n % 7 = 0 then float('-0.0') else cast(n / 8 as float) end",
    "double" -> "case when n > 1990 then double('NaN') when n % 9 = 0 then double('-0.0') when n % 9 = 1 then 0D else n / 3 end",
    "decimal_9" -> "cast(n / 7 as decimal(9, 2))",
    "decimal_18" -> "cast(n * 1000003 / 7 as decimal(18, 6))",
    "decimal_38" -> "cast(n as decimal(38, 10)) * 1234567890123456",
    "string" -> "case when n % 100 = 0 then '' else concat(repeat('é', cast(abs(n) % 3 as int)), hex(n + 3000)) end",
    "long_string" -> "concat(repeat('x', 80), lpad(cast(n + 3000 as string), 5, '0'))",
    "binary" -> "unhex(hex(n + 3000))",
    "date" -> "date_add(date'2020-01-01', cast(n as int))",
    "old_date" -> "date_add(date'1582-10-15', cast(n as int))",
    "timestamp" -> "timestamp_micros(n * 1000003)",
    "old_timestamp" -> "timestamp_seconds(n * 10000000)",
    "timestamp_ntz" -> "cast(timestamp_micros(n * 1000003) as timestamp_ntz)",
    "months" -> "make_ym_interval(0, cast(n as int))",
    "seconds" -> "make_dt_interval(0, 0, 0, n)",
    "few" -> "n % 3",
    "only_null" -> "cast(if(n > 5000, 1, null) as int)"
  )

  private def columns = types.map { case (name, sql) => s"$sql as $name" }
  private def data = spark
    .range(0, rows, 1, 4)
    .selectExpr("id", s"$n as n")
    .selectExpr(columns ++ Seq("id", "repeat(md5(cast(id as string)), 3) as payload"): _*)

  private lazy val plain = write(data, "parquet.enable.dictionary" -> "false")
  private lazy val dictionaries = write(data, "parquet.enable.dictionary" -> "true")
  private lazy val int96 = withConf("spark.sql.parquet.outputTimestampType" -> "INT96")(
    write(data.select("timestamp", "old_timestamp", "id", "payload"))
  )
  private lazy val millis =
    withConf("spark.sql.parquet.outputTimestampType" -> "TIMESTAMP_MILLIS")(
      write(data.select("timestamp", "old_timestamp", "id", "payload"))
    )
  private lazy val legacy = withConf(
    "spark.sql.parquet.datetimeRebaseModeInWrite" -> "LEGACY",
    "spark.sql.parquet.writeLegacyFormat" -> "true"
  )(write(data.drop("timestamp_ntz", "months", "seconds")))

  private val orders = for (d <- Seq("asc", "desc"); nulls <- Seq("first", "last")) yield s"$d nulls $nulls"

  private def check(path: String, column: String, orders: Seq[String] = orders): Unit = {
    orders.zipWithIndex.foreach { case (order, i) =>
      val limit = Seq(1, 7, 40, 300)((i + column.length) % 4)
      // By turns without and with a second key: ties do not show where only the first is selected.
      val (selected, second) = if (i % 2 == limit % 2) (column, "") else (s"$column, id, payload", ", id")
      checkSame(
        spark.sql(s"select $selected from parquet.`$path` order by $column $order$second limit $limit offset $i")
      )
    }
    // Nulls that sort last are not counted.
    assert(seen().fired || column == "only_null")
    nothingIsLeft()
  }

  private def byTurns(column: String) = orders.filter(_.length % 2 == column.length % 2)

  types.map(_._1).foreach { column =>
    test(s"the best rows by a column of $column are the same, plain pages")(withConf(compiled)(check(plain, column)))
    test(s"the best rows by a column of $column are the same, dictionaries") {
      check(dictionaries, column, byTurns(column))
    }
  }
  Seq("timestamp", "old_timestamp").foreach { column =>
    test(s"the best rows by a column of $column are the same, INT96")(check(int96, column, byTurns(column)))
    test(s"the best rows by a column of $column are the same, milliseconds")(check(millis, column, byTurns(column)))
  }
  Seq("date", "old_date", "timestamp", "old_timestamp", "decimal_9", "decimal_18", "decimal_38", "int").foreach {
    column =>
      test(s"the best rows by a column of $column are the same, legacy format and calendar") {
        check(legacy, column, byTurns(column))
      }
  }
}
