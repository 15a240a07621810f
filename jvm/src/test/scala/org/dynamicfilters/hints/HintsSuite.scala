package org.dynamicfilters.hints

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.logging.log4j.{Level, LogManager}
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.{Configurator, Property}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.dynamicfilters.plan.SparkTests
import org.scalatest.funsuite.AnyFunSuite

/** What becomes of hints in logical plans, and what Spark says of those that make no sense. */
class HintsSuite extends AnyFunSuite with SparkTests {
  override protected def beforeAll(): Unit = {
    super.beforeAll()
    spark.read
      .parquet(
        write(spark.range(0, 900, 1, 2).selectExpr("id", "id % 10 as g", "named_struct('a', id, 'b', 'x') as s"))
      )
      .createOrReplaceTempView("hinted")
  }

  /** The hints on the relations of a query's optimized plan, from left to right. */
  private def hints(sql: String): Seq[Option[String]] =
    spark.sql(sql).queryExecution.optimizedPlan.collectLeaves().collect { case l: LogicalRelation =>
      l.relation match {
        case f: HadoopFsRelation => f.options.get(ScanHint.OptionKey)
        case _ => None
      }
    }

  private def warnings(body: => Unit): Seq[String] = {
    val name = "org.apache.spark.sql.catalyst.analysis.HintErrorLogger"
    val seen = new ConcurrentLinkedQueue[String]()
    val appender = new AbstractAppender("hints", null, null, true, Property.EMPTY_ARRAY) {
      override def append(event: LogEvent): Unit = seen.add(event.getMessage.getFormattedMessage)
    }
    appender.start()
    Configurator.setLevel(name, Level.WARN)
    val logger = LogManager.getLogger(name).asInstanceOf[Logger]
    logger.addAppender(appender)
    try body
    finally logger.removeAppender(appender)
    seen.asScala.toSeq
  }

  test("a hint stays on its relation through the optimizer") {
    val off = Some("NO_DYNAMIC_FILTER")
    assert(hints("select id from hinted") == Seq(None))
    assert(hints("select /*+ no_dynamic_filter */ s.a from hinted where g = 3") == Seq(off))
    assert(hints("select /*+ NO_DYNAMIC_FILTER(b) */ a.id from hinted a join hinted b on a.id = b.g") == Seq(None, off))
    assert(
      hints("select /*+ NO_DYNAMIC_FILTER(a), DYNAMIC_FILTER */ a.id from hinted a join hinted b on a.id = b.g") ==
        Seq(off, Some("DYNAMIC_FILTER"))
    )
    assert(
      hints(
        "with c as (select id from hinted) select /*+ NO_DYNAMIC_FILTER(x) */ x.id from c x join c y on x.id = y.id"
      ) ==
        Seq(off, None)
    )
    without(assert(hints("select /*+ NO_DYNAMIC_FILTER */ id from hinted") == Seq(None)))
  }

  test("Spark warns of names that are not there, and not of hints that are") {
    val unknown = warnings(hints("select /*+ NO_DYNAMIC_FILTER(hinted, nobody) */ id from hinted"))
    assert(unknown == Seq("Count not find relation 'nobody' specified in hint 'NO_DYNAMIC_FILTER(hinted, nobody)'."))
    assert(warnings(hints("select /*+ DYNAMIC_FILTER, NO_DYNAMIC_FILTER(hinted) */ id from hinted")).isEmpty)
    assert(warnings(hints("select /*+ NO_DYNAMIC_FILTERS */ id from hinted")).exists(_.contains("Unrecognized hint")))
  }

  test("what did not go through the optimizer's rule is planned without hints") {
    val rule = HintPlacement.ruleName
    withConf("spark.sql.optimizer.excludedRules" -> rule) {
      assert(spark.sql("select /*+ NO_DYNAMIC_FILTER */ id from hinted order by id limit 3").count() == 3)
    }
  }
}
