package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.scan.NeverFails

/** The query's own predicates that may be evaluated early: pure, without subqueries, on flat columns of the files, and with a
  * value for everything. A row may pass them and not the query's.
  *
  * Others that are not evaluated early, and some that the scan does not know of, may keep rows from a predicate that it fails
  * for, or never ends for: a regular expression, for one. So may LIKE with many wildcards.
  */
private[plan] object EarlyPredicates {

  /** Bound to the scan's required schema, in Spark's order. */
  def of(scan: FileSourceScanExec): Seq[Expression] = {
    val position = scan.output.take(scan.requiredSchema.length).map(_.exprId).zipWithIndex.toMap
    def isAskable(p: Expression): Boolean =
      p.deterministic && p.references.nonEmpty && !UserPlanner.isInScan(p) && NeverFails(p) &&
        p.references.forall(r => position.contains(r.exprId) && isFlat(r) && !ParquetFormats.isInternal(r.name)) &&
        !p.exists {
          case _: AttributeReference => false
          case _: PlanExpression[_] | _: UserDefinedExpression | _: Unevaluable | _: Like => true
          case _ => false
        }
    scan.dataFilters
      .flatMap(weakened)
      .filter(isAskable)
      .map(_.transform { case a: AttributeReference => BoundReference(position(a.exprId), a.dataType, a.nullable) })
  }

  /** True wherever the predicate is, without LIKE: `a LIKE '%b%c'` is true of nothing but what contains b and ends with c.
    *
    * LIKE is asked of decoded text, the others of bytes: bytes that are no UTF-8 are like a U+FFFD of a pattern, and not equal.
    */
  private[plan] def weakened(p: Expression): Option[Expression] = p match {
    case Like(e, Literal(pattern: UTF8String, StringType), escape) if e.dataType == StringType =>
      Some(pattern.toString)
        .filter(!_.contains('\uFFFD'))
        .toSeq
        .flatMap(parts(_, escape))
        .map(_(e))
        .reduceOption(And(_, _))
    case And(l, r) => (weakened(l) ++ weakened(r)).reduceOption(And(_, _))
    case Or(l, r) => for { a <- weakened(l); b <- weakened(r) } yield Or(a, b)
    case _ => Some(p)
  }

  /** What stands between the wildcards of a pattern, and where. */
  private def parts(pattern: String, escape: Char): Seq[Expression => Expression] = {
    val found = Seq.newBuilder[(String, Boolean, Boolean)]
    val text = new StringBuilder
    var isFirst = true
    def end(isLast: Boolean): Unit = {
      if (text.nonEmpty) found += ((text.toString, isFirst, isLast))
      text.clear()
      isFirst = false
    }
    val chars = pattern.iterator
    while (chars.hasNext) chars.next() match {
      case c if c == escape => if (chars.hasNext) text += chars.next()
      case '%' | '_' => end(isLast = false)
      case c => text += c
    }
    end(isLast = true)
    found.result().map { case (text, first, last) =>
      val literal = Literal.create(text, StringType)
      (e: Expression) =>
        if (first && last) EqualTo(e, literal)
        else if (first) StartsWith(e, literal)
        else if (last) EndsWith(e, literal)
        else Contains(e, literal)
    }
  }

  private def isFlat(a: Attribute): Boolean = a.dataType match {
    case _: StructType | _: ArrayType | _: MapType => false
    case _ => true
  }
}
