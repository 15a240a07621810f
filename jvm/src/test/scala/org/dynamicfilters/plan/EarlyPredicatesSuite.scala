package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

class EarlyPredicatesSuite extends AnyFunSuite {
  private val column = BoundReference(0, StringType, nullable = true)
  private def like(pattern: String, escape: Char = '\\') = Like(column, Literal(pattern), escape)
  private def passes(p: Expression, text: String): Boolean =
    Predicate.createInterpreted(p).eval(InternalRow(UTF8String.fromString(text)))

  test("what is weaker than LIKE passes all that LIKE passes") {
    val random = new scala.util.Random(7)
    def text(letters: String, length: Int) =
      Seq.fill(random.nextInt(length))(letters(random.nextInt(letters.length))).mkString
    var fewer = 0
    (0 until 3000).foreach { _ =>
      val pattern = text("ab%_", 6)
      val escaped = random.nextInt(4) == 0
      val p = if (escaped) like(pattern.replace("_", "!_"), '!') else like(pattern)
      val weaker = EarlyPredicates.weakened(p)
      (0 until 20).foreach { _ =>
        val t = text("ab_%", 8)
        val weakly = weaker.forall(passes(_, t))
        if (passes(p, t)) assert(weakly, s"$p of $t: $weaker") else if (!weakly) fewer += 1
      }
    }
    assert(fewer > 10000)
  }

  test("bytes that are no UTF-8 are like what LIKE takes them for") {
    val random = new scala.util.Random(8)
    val pieces = Seq("a", "b", "\u00e9", "\uFFFD").map(_.getBytes("UTF-8")) ++
      Seq(0xc3, 0xa9, 0xff, 0xef, 0xbf).map(b => Array(b.toByte))
    val letters = Seq("a", "b", "%", "_", "\u00e9", "\uFFFD")
    var decoded = 0
    (0 until 3000).foreach { _ =>
      val p = like(Seq.fill(random.nextInt(6))(letters(random.nextInt(letters.size))).mkString)
      (0 until 20).foreach { _ =>
        val bytes = Seq.fill(random.nextInt(6))(pieces(random.nextInt(pieces.size))).flatten.toArray
        val row = InternalRow(UTF8String.fromBytes(bytes))
        if (Predicate.createInterpreted(p).eval(row)) {
          decoded += 1
          assert(EarlyPredicates.weakened(p).forall(Predicate.createInterpreted(_).eval(row)), s"$p of ${bytes.toSeq}")
        }
      }
    }
    assert(decoded > 1000)
  }

  test("no LIKE is left where it holds for more than its parts, nor is anything made of its opposite") {
    assert(EarlyPredicates.weakened(like("%_%")).isEmpty)
    assert(EarlyPredicates.weakened(Or(like("a%b%"), like("%"))).isEmpty)
    assert(EarlyPredicates.weakened(And(like("%"), IsNotNull(column))).contains(IsNotNull(column)))
    assert(EarlyPredicates.weakened(Not(like("a%b%"))).contains(Not(like("a%b%"))))
  }
}
