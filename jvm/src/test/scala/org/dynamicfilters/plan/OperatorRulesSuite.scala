package org.dynamicfilters.plan

import java.nio.file.{Files, Paths}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

/** That docs/operators.md lists every operator of Spark is checked in python/tests, for each Spark line. */
class OperatorRulesSuite extends AnyFunSuite {
  private val rows: Seq[(Seq[String], String)] = Files
    .readAllLines(Seq("docs", "../docs").map(Paths.get(_, "operators.md")).find(Files.exists(_)).get)
    .asScala
    .toSeq
    .filter(_.startsWith("| `"))
    .map(_.split(" \\| "))
    .map(cells => ("`(\\w+)`".r.findAllMatchIn(cells(0)).map(_.group(1)).toSeq, cells(1)))

  test("the page says of the operators that stop filters that they do") {
    val stopping = rows.collect { case (names, "no") => names }.flatten.toSet
    assert(stopping.size > 30)
    assert(OperatorRules.stops.keySet.diff(stopping).isEmpty)
  }

  test("no operator is on the page twice") {
    val names = rows.flatMap(_._1)
    assert(names.distinct == names)
  }
}
