package org.dynamicfilters

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

/** The order of the packages (docs/design.md): what a room imports, or names with its package, lies in an earlier one. */
class RoomsSuite extends AnyFunSuite {
  private val order = Seq(
    "proto",
    "reasons",
    "bridge", // org.apache.spark.sql.execution.dynamicfilters
    "settings",
    "api",
    "filter",
    "user",
    "state",
    "exchange",
    "tables",
    "scan",
    "report",
    "ui",
    "operators",
    "hints",
    "plan",
    "connect",
    "lifecycle" // and the two classes that users name, in the root package
  )
  private val mostLines = 400

  private val bridge = "org.apache.spark.sql.execution.dynamicfilters"
  private val ours = "org.dynamicfilters"

  private val root: Path =
    Seq("src/main/scala", "jvm/src/main/scala").map(Paths.get(_)).find(Files.isDirectory(_)).get
  private val sources: Seq[(Path, String)] = {
    val files = Files.walk(root)
    try
      files.iterator.asScala
        .filter(_.toString.endsWith(".scala"))
        .map(f => root.relativize(f) -> Files.readString(f))
        .toVector
    finally files.close()
  }

  private def code(source: String): String =
    source.replaceAll("(?s)/\\*.*?\\*/", "").replaceAll("//[^\n]*", "").replaceAll("\"[^\"\n]*\"", "\"\"")

  private def room(member: String): String = if (order.contains(member)) member else "lifecycle"

  private val packageLine = "(?m)^package (\\S+)".r
  private val use = (java.util.regex.Pattern.quote(ours) + "\\.(\\w+|\\{[^}]*\\})[\\w.]*").r

  private def roomOf(source: String): String = packageLine.findFirstMatchIn(source).get.group(1) match {
    case `bridge` => "bridge"
    case p => room(p.stripPrefix(ours).stripPrefix(".").takeWhile(_ != '.'))
  }

  /** The rooms that a source uses, with the text that says so. */
  private def uses(source: String): Seq[(String, String)] = {
    val text = packageLine.replaceFirstIn(code(source), "")
    use.findAllMatchIn(text).map(m => room(m.group(1)) -> m.matched).toSeq ++
      Option.when(text.contains(bridge))("bridge" -> bridge)
  }

  test("no room uses a later one") {
    assert(sources.size > 100)
    val up = for {
      (file, source) <- sources
      here = order.indexOf(roomOf(source))
      (other, text) <- uses(source)
      if order.indexOf(other) > here
    } yield s"$file: $text"
    assert(up.isEmpty, up.mkString("\n", "\n", ""))
  }

  test("every room is in the order") {
    val rooms = sources.map { case (file, _) => file.toString }.collect {
      case f if f.startsWith("org/dynamicfilters/") && f.count(_ == '/') > 2 => f.split('/')(2)
    }
    assert(rooms.toSet.diff(order.toSet).isEmpty)
  }

  test("no file is too long to be read") {
    val long = sources.collect { case (file, source) if source.linesIterator.size > mostLines => file }
    assert(long.isEmpty)
  }
}
