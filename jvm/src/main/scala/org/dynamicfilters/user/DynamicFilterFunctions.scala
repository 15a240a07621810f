package org.dynamicfilters.user

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry.FunctionBuilder
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo, Literal}
import org.apache.spark.sql.execution.dynamicfilters.{SparkAccess, UserError}
import org.apache.spark.sql.types._
import org.dynamicfilters.filter.KeyDomain

/** The SQL functions that use user filters. */
object DynamicFilterFunctions {
  import UserFilterException.Code

  type Description = (FunctionIdentifier, ExpressionInfo, FunctionBuilder)

  val Match = "dynamic_filter"
  val Prune = "dynamic_filter_prune"

  val all: Seq[Description] = Seq(
    function(Match, follows = false, "true if the value passes the filter as it is when the query starts, else false"),
    function(
      Prune,
      follows = true,
      "may drop rows whose value does not pass the filter, which may be updated meanwhile"
    )
  )

  private def function(name: String, follows: Boolean, usage: String): Description = {
    val shown = info(classOf[DynamicFilterPredicate], name, s"_FUNC_(name, column) - $usage", "predicate_funcs")
    (FunctionIdentifier(name), shown, arguments => build(name, follows, arguments))
  }

  /** What Spark shows of a function. */
  private[dynamicfilters] def info(of: Class[_], name: String, usage: String, group: String): ExpressionInfo =
    new ExpressionInfo(of.getName, null, name, usage, "", "", "", group, "0.1.0", "", "built-in")

  private def build(function: String, follows: Boolean, arguments: Seq[Expression]): Expression = arguments match {
    case Seq(first, column) =>
      val sessionId = SparkAccess.sessionId(SparkSession.active)
      val name = nameOf(function, first)
      val f = UserFilters.open(sessionId, name)
      val filterType = f.domain.dataType
      val value = if (column.dataType == NullType) Literal(null, filterType) else column
      if (!fits(filterType, value.dataType))
        throw UserFilterException.of(
          Code.TypeMismatch,
          name,
          f.typeText,
          s"${UserError.shown(column.sql)} is of type ${UserError.shown(column.dataType.catalogString)}"
        )
      DynamicFilterPredicate(name, sessionId, follows, filterType, None, value)
    case other =>
      throw new UserFilterException(
        Code.InvalidUse,
        s"$function takes a filter's name and a column, $function('name', column); given: ${other.size}"
      )
  }

  private def nameOf(function: String, e: Expression): String = {
    val value = if (e.foldable && e.dataType.isInstanceOf[StringType]) e.eval() else null
    if (value == null)
      throw new UserFilterException(
        Code.InvalidUse,
        s"$function takes a filter's name first, not ${UserError.shown(e.sql)}"
      )
    value.toString
  }

  /** An integer filter fits an integer column of any width: a number is the same value in each. */
  private def fits(filter: DataType, column: DataType): Boolean =
    (filter == column && KeyDomain.forType(column).isRight) || Seq(filter, column).forall(KeyDomain.isInteger)
}
