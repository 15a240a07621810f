package org.dynamicfilters.user

import java.util.function.{LongPredicate, Predicate => JPredicate}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, Predicate, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeGenerator, CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types.{BooleanType, DataType, DoubleType, FloatType}
import org.dynamicfilters.filter.{KeyDomain, LongDomain, ObjectDomain}

/** `dynamic_filter('name', column)` and `dynamic_filter_prune('name', column)`: whether a value passes a user's filter.
  *
  * The result is never NULL, so `NOT` of it selects exactly the other rows. The predicate is deterministic: `PinUserFilters` pins
  * the generation before the query is optimized, and the optimizer, all tasks and all retries use that one.
  *
  * @param sessionId of the session that the filter's name belongs to
  * @param follows whether scans may use later, tighter generations too
  * @param filterType the filter's type when the query was analyzed
  * @param pin None until the query starts
  */
case class DynamicFilterPredicate(
    name: String,
    sessionId: String,
    follows: Boolean,
    filterType: DataType,
    pin: Option[Generation],
    child: Expression
) extends UnaryExpression
    with Predicate {

  override def nullable: Boolean = false
  // The generation is not pinned yet when Spark folds constants.
  override def foldable: Boolean = false
  override def prettyName: String = if (follows) DynamicFilterFunctions.Prune else DynamicFilterFunctions.Match
  override def sql: String = s"$prettyName('$name', ${child.sql})"
  override def toString: String = s"$prettyName($name${pin.fold("")(g => s" $g")}, $child)"

  /** The pinned generation. Fails if the predicate was never part of a planned query. */
  def generation: Generation =
    pin.getOrElse(throw new IllegalStateException(s"$sql is evaluated outside of a query"))

  @transient private lazy val test = new ObjectPasses(generation, child.dataType)
  @transient private lazy val nulls: Boolean = generation.filter.passes(null)

  override def eval(input: InternalRow): Any = {
    val value = child.eval(input)
    if (value == null) nulls else test.test(value.asInstanceOf[AnyRef])
  }

  override def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val c = child.genCode(ctx)
    val v = c.value.toString
    def call(test: AnyRef, interface: Class[_], value: String): String =
      s"${ctx.addReferenceObj("dynamicFilter", test, interface.getName)}.test($value)"
    val (g, t) = (generation, child.dataType)
    // Only JDK types are named: the class loader of generated code may not know ours.
    val passes = t match {
      case BooleanType => call(new LongPasses(g, t), classOf[LongPredicate], s"$v ? 1L : 0L")
      case FloatType | DoubleType =>
        call(new ObjectPasses(g, t), classOf[JPredicate[_]], s"${CodeGenerator.boxedType(t)}.valueOf($v)")
      case _ if CodeGenerator.isPrimitiveType(t) =>
        call(new LongPasses(g, t), classOf[LongPredicate], s"(long) $v")
      case _ => call(new ObjectPasses(g, t), classOf[JPredicate[_]], v)
    }
    ev.copy(
      code = code"""
        ${c.code}
        boolean ${ev.value} = ${c.isNull} ? $nulls : $passes;""",
      isNull = FalseLiteral
    )
  }

  override protected def withNewChildInternal(newChild: Expression): DynamicFilterPredicate = copy(child = newChild)
}

object DynamicFilterPredicate {

  /** The user filters of a plan after `PinUserFilters`, subqueries included. */
  def pinnedIn(plan: LogicalPlan): Seq[DynamicFilterPredicate] =
    if (!UserFilters.everUsed) Nil
    else
      plan
        .collectWithSubqueries { case p => p.expressions.flatMap(_.collect { case u: DynamicFilterPredicate => u }) }
        .flatten
        .distinctBy(u => (u.sessionId, u.name))
}

/** Tests a boolean (0, 1), integer, date, timestamp, time or interval. Generated code calls it, and holds it as a reference that is
  * serialized.
  */
private final class LongPasses(g: Generation, t: DataType) extends LongPredicate with Serializable {
  @transient private lazy val passes = g.filterFor(KeyDomain.known(t)).longTest
  override def test(value: Long): Boolean = passes.test(value)
}

/** The same for a value of any type that is not null. */
private final class ObjectPasses(g: Generation, t: DataType) extends JPredicate[AnyRef] with Serializable {
  @transient private lazy val passes: JPredicate[AnyRef] = {
    val domain = KeyDomain.known(t)
    val filter = g.filterFor(domain)
    domain match {
      case d: LongDomain =>
        val longs = filter.longTest
        value => longs.test(d.fromInternal(value).asInstanceOf[java.lang.Long])
      case d: ObjectDomain => value => filter.passesObject(d.view(value))
    }
  }
  override def test(value: AnyRef): Boolean = passes.test(value)
}
