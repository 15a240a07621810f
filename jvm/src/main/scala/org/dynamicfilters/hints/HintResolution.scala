package org.dynamicfilters.hints

import scala.collection.mutable

import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.catalog.{HiveTableRelation, UnresolvedCatalogRelation}
import org.apache.spark.sql.catalyst.expressions.{Expression, StringLiteral, SubqueryExpression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.trees.TreePattern.{PLAN_EXPRESSION, UNRESOLVED_HINT}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.execution.dynamicfilters.UserError

/** Resolves `DYNAMIC_FILTER` and `NO_DYNAMIC_FILTER`, in SQL and in `df.hint(...)`.
  *
  * Runs beside Spark's own rules for hints, before relations are resolved. As in Spark's `ResolveHints`, a name means the alias
  * of a relation, or the end of its name if it has no alias. A view, subquery or table expression is named as a whole. A name that
  * is not found gives Spark's own warning, and a reason in the query's report. Without a name, the hint is for every relation of
  * the query block, its subqueries included.
  */
object HintResolution extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.resolveOperatorsUpWithPruning(_.containsPattern(UNRESOLVED_HINT)) {
      case h: UnresolvedHint if ScanHint.named(h.name).isDefined => resolve(h, ScanHint.named(h.name).get)
    }

  private def resolve(h: UnresolvedHint, hint: ScanHint): LogicalPlan =
    if (h.parameters.isEmpty) everywhere(h.child, hint)
    else {
      val names = h.parameters.map(relationName(hint, _)).toSet
      val found = mutable.HashSet.empty[Seq[String]]
      val placed = where(h.child, hint) { relation =>
        val matching = names.filter(isEndOf(_, relation))
        found ++= matching
        matching.nonEmpty
      }
      val missing = names -- found
      conf.hintErrorHandler.hintRelationsNotFound(h.name, h.parameters, missing)
      if (missing.isEmpty) placed
      else {
        // A copy: the plan of `df.hint` shares its nodes with that of `df`, which has no hint.
        val told = placed.clone()
        told.setTagValue(NotFoundTag, missing.map(_.mkString(".")).toSeq.sorted)
        told
      }
    }

  private val NotFoundTag = TreeNodeTag[Seq[String]]("dynamicfilters.hintNotFound")

  /** The names in hints of an analyzed plan that no relation has. Clients of Spark Connect do not see Spark's warning. */
  def notFound(analyzed: LogicalPlan): Seq[String] =
    analyzed.collectWithSubqueries { case p => p.getTagValue(NotFoundTag).toSeq.flatten }.flatten.distinct

  private def relationName(hint: ScanHint, parameter: Expression): Seq[String] = parameter match {
    case StringLiteral(name) => UnresolvedAttribute.parseAttributeName(name)
    case a: UnresolvedAttribute => a.nameParts
    case other =>
      throw new UserError(
        "DYNAMIC_FILTER_HINT_PARAMETER",
        s"The hint ${hint.name} takes names of tables or aliases, as identifiers or strings, but was given " +
          s"${UserError.shown(other.sql)}.",
        UserError.Syntax
      )
  }

  /** Compares names as they are written, without the current database, as Spark's own hints do. */
  private def isEndOf(name: Seq[String], relation: Seq[String]): Boolean =
    name.length <= relation.length &&
      name.zip(relation.takeRight(name.length)).forall { case (a, b) => conf.resolver(a, b) }

  /** Puts the hint on the named relations of this query block. */
  private def where(plan: LogicalPlan, hint: ScanHint)(isNamed: Seq[String] => Boolean): LogicalPlan = plan match {
    case u: UnresolvedRelation if isNamed(u.multipartIdentifier) => everywhere(u, hint)
    case s: SubqueryAlias if isNamed(s.identifier.qualifier :+ s.identifier.name) => everywhere(s, hint)
    case _: View | _: UnresolvedWith | _: SubqueryAlias => plan
    case other => other.mapChildren(where(_, hint)(isNamed))
  }

  /** Puts the hint on each relation of the plan.
    *
    * Directly on the relations: the analyzer allows only certain nodes on the path of a correlated subquery, and this node is not
    * one of them.
    */
  private def everywhere(plan: LogicalPlan, hint: ScanHint): LogicalPlan = {
    val below =
      if (plan.children.nonEmpty) plan.mapChildren(everywhere(_, hint))
      else if (mayBeFiltered(plan)) DynamicFilterHint(hint, plan)
      else plan
    below.transformExpressionsWithPruning(_.containsPattern(PLAN_EXPRESSION)) { case s: SubqueryExpression =>
      s.withNewPlan(everywhere(s.plan, hint))
    }
  }

  private def mayBeFiltered(leaf: LogicalPlan): Boolean = leaf match {
    case u: UnresolvedRelation => !u.isStreaming
    case l @ (_: LogicalRelation | _: DataSourceV2Relation) => !l.isStreaming
    case c: CTERelationRef => !c.isStreaming
    case _: UnresolvedCatalogRelation | _: HiveTableRelation | _: RelationTimeTravel => true
    case _ => false
  }
}
