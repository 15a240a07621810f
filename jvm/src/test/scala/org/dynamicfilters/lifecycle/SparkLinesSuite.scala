package org.dynamicfilters.lifecycle

import org.scalatest.funsuite.AnyFunSuite

class SparkLinesSuite extends AnyFunSuite {
  test("supported lines are told by the first two numbers of a version") {
    Seq("4.1.0", "4.1.4", "4.2.0-amzn-1", "4.3.0-SNAPSHOT", "4.3").foreach(v => assert(SparkLines.isSupported(v), v))
    Seq("3.5.9", "4.0.5", "4.10.0", "4.4.0", "5.1.0", "14.1.0", "4", "", "unknown")
      .foreach(v => assert(!SparkLines.isSupported(v), v))
  }

  test("the line that the tests run on is supported")(assert(SparkLines.isSupported))
}
