package org.dynamicfilters.plan

import java.io.File
import java.lang.reflect.Modifier
import java.nio.file.{Files, Paths}
import java.util.zip.ZipFile

import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import org.apache.spark.sql.execution.SparkPlan
import org.scalatest.funsuite.AnyFunSuite

class OperatorRulesSuite extends AnyFunSuite {
  private def page: Seq[String] =
    Files.readAllLines(Seq("docs", "../docs").map(Paths.get(_, "operators.md")).find(Files.exists(_)).get).asScala.toSeq

  // Neither of them is part of the query whose scans are filtered: commands, writes, and streams.
  private val others = Seq(
    """org\.apache\.spark\.sql\.execution\.command\..*""",
    """org\.apache\.spark\.sql\.execution\.(python\.)?streaming\..*""",
    """org\.apache\.spark\.sql\.execution\.debug\..*""",
    """org\.apache\.spark\.sql\.execution\.datasources\.v2\.(Continuous|MicroBatch|RealTimeStream)ScanExec"""
  )
  private val command = Class.forName("org.apache.spark.sql.execution.datasources.v2.V2CommandExec")

  /** The operators of the Spark that the tests run with. */
  private def operators: Seq[Class[_]] = {
    val jars = sys.props("java.class.path").split(File.pathSeparator).toSeq ++
      Seq(classOf[SparkPlan], command).map(_.getProtectionDomain.getCodeSource.getLocation.getPath)
    for {
      jar <- jars.distinct.filter(j => new File(j).getName.matches("spark-(sql|hive)_.*\\.jar"))
      name <- Using.resource(new ZipFile(jar))(_.entries.asScala.map(_.getName).toVector)
      if name.startsWith("org/apache/spark/sql/") && name.endsWith(".class") && !name.contains("$")
      c <- Try(Class.forName(name.stripSuffix(".class").replace('/', '.'), false, getClass.getClassLoader)).toOption
      if classOf[SparkPlan].isAssignableFrom(c) && !Modifier.isAbstract(c.getModifiers) && !command.isAssignableFrom(c)
      if !others.exists(c.getName.matches(_))
    } yield c
  }

  test("every operator of Spark is listed") {
    val found = operators
    assert(found.size > 60)
    val unknown = found.filter(OperatorRules.of(_).isEmpty).map(_.getName)
    assert(
      unknown.isEmpty,
      s"not listed in OperatorRules.all; decide whether filters pass, in PushDown if they do, and add: $unknown"
    )
  }

  test("no operator is listed twice") {
    val names = OperatorRules.all.flatMap(_.names)
    assert(names.distinct == names)
  }

  test("the docs have the same list") {
    val there = page.filter(_.startsWith("|"))
    val (lacks, tooMuch) = (OperatorRules.table.diff(there), there.diff(OperatorRules.table))
    if (lacks.nonEmpty || tooMuch.nonEmpty || there != OperatorRules.table)
      fail(s"docs/operators.md lacks:\n${lacks.mkString("\n")}\nand has too much:\n${tooMuch.mkString("\n")}")
  }
}
