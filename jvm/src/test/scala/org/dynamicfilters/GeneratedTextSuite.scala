package org.dynamicfilters

import java.lang.reflect.Method
import java.nio.file.{Files, Path, Paths}

import org.dynamicfilters.reasons.{Reason, Reasons}
import org.dynamicfilters.settings.Settings
import org.scalatest.funsuite.AnyFunSuite

/** Texts outside of the code are what the code's data says. `make texts` writes them anew. */
class GeneratedTextSuite extends AnyFunSuite {
  private val root: Path = Seq("", "..").map(Paths.get(_)).find(p => Files.isDirectory(p.resolve("docs"))).get

  /** The text that a file has, or has between its lines `<!-- name -->` and `<!-- end -->`. */
  private def has(file: String, name: String, lines: Seq[String]): Unit = test(s"$file has the $name") {
    val path = root.resolve(file)
    val before = Files.readString(path)
    val (from, to) =
      if (!file.endsWith(".md")) (0, before.length)
      else {
        val from = before.indexOf(s"<!-- $name -->\n") + s"<!-- $name -->\n".length
        val to = before.indexOf("<!-- end -->\n", from)
        assert(before.contains(s"<!-- $name -->\n") && to > 0, s"$file has no lines <!-- $name --> and <!-- end -->")
        (from, to)
      }
    val after = before.patch(from, lines.mkString("", "\n", "\n"), to - from)
    if (sys.env.contains("WRITE_TEXTS")) Files.writeString(path, after)
    else assert(before == after, s"$file is not what the code says: `make texts` writes it anew")
  }

  private def table(header: Seq[String], rows: Seq[Seq[String]]): Seq[String] =
    header.mkString("| ", " | ", " |") +: header.map(_ => "---").mkString("|", "|", "|") +:
      rows.map(_.mkString("| ", " | ", " |"))

  /** All reasons, in the order of their texts; those with parameters get the names of these. */
  private val reasons: Seq[Reason] =
    Reasons.getClass.getMethods.toSeq.filter(_.getReturnType == classOf[Reason]).map(example).sortBy(_.text.toLowerCase)

  private def example(method: Method): Reason = {
    val stands = method.getParameters.toSeq.zipWithIndex.map { case (p, i) => s"<${p.getName}>" -> (999000 + i) }
    val values = stands.zip(method.getParameterTypes).map {
      case ((_, n), t) if t == classOf[Int] => Int.box(n)
      case ((_, n), t) if t == classOf[Long] => Long.box(n.toLong)
      case ((name, _), t) if t == classOf[Reason] => Reason("", name, "see that reason")
      case ((name, _), t) if t == classOf[String] => name
      case (_, t) if t == classOf[Throwable] => new Exception
    }
    val made = method.invoke(Reasons, values: _*).asInstanceOf[Reason]
    val text = stands.foldLeft(made.text) { case (text, (name, n)) => text.replace(n.toString, name) }
    made.copy(text = text.replaceFirst("Exception(?= while |\\))", "<error>"))
  }

  private val byTable = reasons.groupBy(_.code.takeWhile(_ != '.'))
  byTable.toSeq.sortBy(_._1).foreach { case (name, listed) =>
    val columns = listed.map(r => Seq(s"`${r.text}`", linked(r.advice), s"`${r.code}`"))
    // `dynamic_filter_scans()` shows texts only.
    val shown = if (name == "read") 2 else 3
    val rows = (Seq("reason", "what to do", "code") +: columns).map(_.take(shown))
    has("docs/troubleshooting.md", s"reasons: $name", table(rows.head, rows.tail))
  }

  test("the page has no other tables of reasons") {
    val page = Files.readString(root.resolve("docs/troubleshooting.md"))
    assert("<!-- reasons: (.*) -->".r.findAllMatchIn(page).map(_.group(1)).toSet == byTable.keySet)
  }

  private def linked(advice: String): String = advice.replaceAll("[\\w-]+\\.md", "[$0]($0)")

  private val settings = Settings.all.map(s => (s.key.stripPrefix(Settings.Prefix), s.default, s.takes, s.doc))

  has(
    "docs/configuration.md",
    "settings",
    table(
      Seq(s"key under `${Settings.Prefix}`", "default", "takes", "meaning"),
      settings.map { case (name, default, takes, doc) => Seq(s"`$name`", default, takes, doc) }
    )
  )

  has("python/spark_dynamic_filters/_settings_table.py", "settings", python)

  private def python: Seq[String] = {
    def text(s: String) = s"\"$s\""
    val kinds = Seq("bool" -> "true|false", "int" -> "\\d+", "float" -> "[\\d.]+", "str" -> ".*")
    val rows = settings.map { case (name, default, takes, doc) =>
      val kind = kinds.collectFirst { case (kind, values) if default.matches(values) => kind }.get
      s"    (${text(name)}, $kind, ${text(default)}, ${text(takes)}, ${text(doc)}),"
    }
    "\"\"\"Made from Settings.scala by `make texts`.\"\"\"" +: "" +: "TABLE = (" +: rows :+ ")"
  }

  test("no two reasons have one code or text, and each has advice") {
    assert(reasons.size > 100)
    assert(reasons.map(_.code).distinct.size == reasons.size && reasons.map(_.text).distinct.size == reasons.size)
    assert(reasons.forall(_.advice.nonEmpty))
  }
}
