package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{
  Alias, Attribute, AttributeReference, ExplodeBase, Expression, GetStructField, Inline, NamedExpression, Stack
}
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeLike, ShuffleExchangeLike}
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.execution.python.EvalPythonExec
import org.apache.spark.sql.execution.window.WindowExecBase
import org.dynamicfilters.filter.Traverse
import org.dynamicfilters.api.FilterPassThrough
import org.dynamicfilters.operators.BuildKeyTapExec
import org.dynamicfilters.reasons.{Reason, Reasons}

/** Pushes a filter down from its producer to scans, by attribute id. Used by the planners of all producers.
  *
  * An operator lets a filter on column c pass if dropping input rows by c only changes output rows that the filter
  * excludes too, and if those rows cannot make an expression fail up to the producer ([[ExcludedRows]]). Operators that
  * are not listed stop the filter; a new one is listed here, in [[ExcludedRows]] and in [[Repeatable]]. Filters on
  * several columns, of which a row needs to pass one, pass an operator together.
  *
  * @param key the column's role for the producer, for reasons: "the sort key"
  * @param producer expressions that the producer evaluates for each row
  */
final class PushDown(
    key: String,
    producer: Seq[Expression],
    reach: PushDown.Reach,
    toScan: PushDown.Reached => Either[Reason, SparkPlan]
) {
  import PushDown._

  // Grows each time a branch of a union, or the own side of a join whose other side is filtered, stays unfiltered.
  private var unfiltered = 0

  /** The plan with the filter in at least one of the scans that the columns come from, or why no scan can be filtered.
    */
  def apply(plan: SparkPlan, columns: Seq[Attribute], computed: Option[Expression] = None): Either[Reason, SparkPlan] =
    down(plan, columns, Path(crossed = false, Nil, computed))

  private def down(plan: SparkPlan, columns: Seq[Attribute], path: Path): Either[Reason, SparkPlan] = plan match {
    case scan if ScanPlanner.isScan(scan) => toScan(Reached(scan, columns, path.crossed, path.computed))

    case p: FilterPassThrough =>
      Traverse(columns)(c => p.sourceOf(c).toRight(stops(plan))).flatMap { sources =>
        val child = plan.children.indexWhere(c => sources.forall(has(c, _)))
        if (child < 0) Left(Reasons.MadeBy(key, plan.nodeName.trim))
        else
          down(plan.children(child), sources, path.below(plan))
            .map(c => plan.withNewChildren(plan.children.updated(child, c)))
      }

    case p: ProjectExec =>
      if (!p.projectList.forall(reach.mayPass)) Left(Reasons.NonDeterministic("projection"))
      else {
        // Expressions that depend on a row's position show which rows the scan dropped.
        val crosses = path.crossing(!p.projectList.forall(RowValues.dependsOnRowOnly))
        columns.distinctBy(_.exprId) match {
          case Seq(column) =>
            computedIn(p.projectList, column, crosses).flatMap { case (source, path) =>
              into(p, columns.map(_ => source), path)
            }
          case _ => Traverse(columns)(found(p.projectList, _, "projection")).flatMap(into(p, _, crosses))
        }
      }

    case f: FilterExec =>
      if (f.condition.deterministic) into(f, columns, path) else Left(Reasons.NonDeterministic("filter"))

    case j: BroadcastHashJoinExec => intoJoin(j, columns, path)
    case j: BroadcastNestedLoopJoinExec => intoJoin(j, columns, path)
    // No other shuffled joins: an as-of join looks for the nearest row, which depends on all rows.
    case j: SortMergeJoinExec if reach.beyondExchange => intoJoin(j, columns, path)
    case j: ShuffledHashJoinExec if reach.beyondExchange => intoJoin(j, columns, path)

    case u: UnionExec =>
      // Spark computes it from all branches at each call.
      val output = u.output
      val pushed = u.children.map { c =>
        Traverse(columns) { column =>
          val position = output.indexWhere(_.exprId == column.exprId)
          if (position < 0 || c.output(position).dataType != column.dataType)
            Left(Reasons.UnionTypes)
          else Right(c.output(position))
        }.flatMap(down(c, _, path.below(u)))
      }
      if (pushed.exists(_.isLeft)) unfiltered += 1
      if (pushed.forall(_.isLeft)) pushed.head
      else Right(u.withNewChildren(u.children.zip(pushed).map { case (c, p) => p.getOrElse(c) }))

    case g: GenerateExec =>
      g.generator match {
        case _: ExplodeBase | _: Inline | _: Stack if g.generator.deterministic && columns.forall(has(g.child, _)) =>
          into(g, columns, path)
        case other => Left(Reasons.Generator(other.prettyName))
      }

    // Outputs its input columns and the functions' results, row by row.
    case e: EvalPythonExec =>
      if (!e.udfs.forall(_.deterministic)) Left(Reasons.RandomPython)
      else if (OperatorRules.seesPartition(e)) Left(Reasons.IteratorFunction)
      else if (columns.forall(has(e.child, _))) into(e, columns, path)
      else Left(Reasons.ComputedByPython(key))

    case e: ExpandExec => Traverse(columns)(inEachProjection(e, _)).flatMap(into(e, _, path))

    case c: CoalesceExec => into(c, columns, path)

    case s: SortExec if reach.beyondExchange => into(s, columns, path)
    case t: BuildKeyTapExec => into(t, columns, path)
    case a: BaseAggregateExec if reach.beyondExchange =>
      if (!a.expressions.forall(_.deterministic)) Left(Reasons.NonDeterministic("aggregate"))
      else if (reach.showsPosition()) Left(Reasons.ShowsOrder)
      else
        for {
          grouped <- Traverse(columns)(grouping(a, _))
          // Crossing even without an exchange (bucketed tables): the order of groups, and their values after a fall-back to
          // sorting, depend on the number of groups.
          done <- unless(path, _.withPartialGroups(a))(into(a, grouped, path.crossing(true)))
        } yield done
    case w: WindowExecBase if reach.beyondExchange => inPartitions(w, w.partitionSpec, columns, path)
    case w: window.WindowGroupLimitExec if reach.beyondExchange => inPartitions(w, w.partitionSpec, columns, path)
    case e @ (_: ShuffleExchangeLike | _: BroadcastExchangeLike) if reach.beyondExchange =>
      reach.whyKeep(e, columns) match {
        case Some(reason) => Left(reason)
        case None => down(e.children.head, columns, path.below(e).crossing(true)).map(c => e.withNewChildren(Seq(c)))
      }
    case _: adaptive.QueryStageExec if reach.beyondExchange => Left(Reasons.RunsAlready)
    case other => Left(stops(other))
  }

  private def has(plan: SparkPlan, column: Attribute): Boolean = plan.outputSet.contains(column)

  private def into(parent: UnaryExecNode, columns: Seq[Attribute], path: Path): Either[Reason, SparkPlan] =
    down(parent.child, columns, path.below(parent)).map(c => parent.withNewChildren(Seq(c)))

  /** The input column from which a projection computes a column, and the path below. */
  private def computedIn(
      list: Seq[NamedExpression],
      column: Attribute,
      path: Path
  ): Either[Reason, (Attribute, Path)] =
    list.find(_.exprId == column.exprId) match {
      case Some(Alias(e, _)) if !e.isInstanceOf[Attribute] =>
        MonotoneExpressions
          .of(e)
          .map { case (source, computed) => (source, path.computing(computed)) }
          .toRight(Reasons.Computed(key, ExpressionText.withoutValues(e)))
      case _ => found(list, column, "projection").map((_, path))
    }

  private def found(list: Seq[NamedExpression], column: Attribute, where: String): Either[Reason, AttributeReference] =
    list.find(_.exprId == column.exprId).toRight(Reasons.NotBelow(key, column.name, where)).flatMap(passedOn(_))

  private def passedOn(e: NamedExpression): Either[Reason, AttributeReference] =
    PushDown.passedOn(e).toRight(Reasons.Computed(key, ExpressionText.withoutValues(e)))

  /** The input column that all projections of an Expand pass on unchanged. */
  private def inEachProjection(e: ExpandExec, column: Attribute): Either[Reason, Attribute] = {
    val at = e.output.indexWhere(_.exprId == column.exprId)
    e.projections.map(p => if (at < 0) None else Some(p(at))).distinctBy(_.map(_.canonicalized)) match {
      case Seq(Some(same: AttributeReference)) if e.projections.forall(_.forall(_.deterministic)) => Right(same)
      case _ => Left(Reasons.Rollup(key))
    }
  }

  /** The input column of a grouping key. A filter on it drops whole groups, so the others keep all their rows. */
  private def grouping(a: BaseAggregateExec, column: Attribute): Either[Reason, Attribute] =
    for {
      x <- found(a.resultExpressions, column, "aggregate")
      g <- a.groupingExpressions.find(_.exprId == x.exprId).toRight(Reasons.GroupsByOther)
      grouped <- passedOn(g)
    } yield grouped

  private def inPartitions(w: UnaryExecNode, by: Seq[Expression], columns: Seq[Attribute], path: Path) =
    if (columns.forall(c => by.exists { case a: Attribute => a.exprId == c.exprId; case _ => false }))
      unless(path, _.withPartialInput(w))(into(w, columns, path))
    else Left(Reasons.WindowByOther)

  /** Pushes down unless rows that remain, in spite of the filter, can make the query fail. */
  private def unless(path: Path, reason: ExcludedRows => Option[Reason])(
      pushed: => Either[Reason, SparkPlan]
  ): Either[Reason, SparkPlan] =
    reason(excludedRows(true, path)).toLeft(()).flatMap { _ =>
      val before = unfiltered
      pushed.flatMap(done => (if (unfiltered == before) None else reason(excludedRows(false, path))).toLeft(done))
    }

  private def excludedRows(isFiltered: Boolean, path: Path): ExcludedRows =
    new ExcludedRows(isFiltered, path.above, producer)

  /** Pushes into the side of the columns, and into the other side by equal keys, as [[JoinSemantics]] permits. */
  private def intoJoin(join: BaseJoinExec, columns: Seq[Attribute], path: Path): Either[Reason, SparkPlan] = {
    val own = FilteredSide(join, isLeft = columns.forall(has(join.left, _)))
    val rules = JoinSemantics.of(join)(own.isLeft)
    if (!columns.forall(has(own.probe, _)))
      Left(
        if (columns.forall(c => has(join.left, c) || has(join.right, c))) Reasons.BothSides(key)
        else Reasons.MadeBy(key, "a join")
      )
    else if (!rules.carries) Left(Reasons.OtherJoin(JoinSemantics.withArticle(join.joinType)))
    else {
      val before = unfiltered
      val filtered = intoSide(own, columns, path)
      val isFiltered = filtered.isRight && unfiltered == before
      val equal = if (rules.carriesAcross) columns.flatMap(equalKey(own, _)) else Nil
      val across =
        if (equal.size < columns.size) None
        else if (excludedRows(isFiltered, path).withLostMatches(join, own.isLeft).isDefined) None
        else intoSide(FilteredSide(join, !own.isLeft), equal, path).toOption
      if (filtered.isLeft && across.isEmpty) filtered
      else {
        if (filtered.isLeft && !rules.mayLose) unfiltered += 1
        Right(own.withSides(filtered.getOrElse(own.probe), across.getOrElse(own.build)))
      }
    }
  }

  private def intoSide(side: FilteredSide, columns: Seq[Attribute], path: Path): Either[Reason, SparkPlan] =
    if (!reach.beyondExchange && side.isBroadcast) Left(Reasons.BroadcastSide(key))
    else {
      // The hash table outputs rows without a match in an order that depends on their number.
      val isHashed = side.join match {
        case s: ShuffledHashJoinExec => s.buildSide == (if (side.isLeft) BuildLeft else BuildRight)
        case _ => false
      }
      down(side.probe, columns, path.below(side.join).crossing(isHashed))
    }

  /** The column of the other side that equals this one in each match. None for computed keys, also those of `<=>`. */
  private def equalKey(side: FilteredSide, column: Attribute): Option[Attribute] =
    side.probeKeys.zip(side.buildKeys).collectFirst {
      case (a: Attribute, b: Attribute) if a.exprId == column.exprId && a.dataType == b.dataType => b
    }
}

object PushDown {

  /** Pushes the filter of a condition on `compared`, which is a column or computed from one, to scans of the same
    * stage.
    */
  def fromCondition(plan: SparkPlan, condition: Expression, compared: Expression)(
      toScan: Reached => Either[Reason, SparkPlan]
  ): Either[Reason, SparkPlan] = JoinKeys.column(compared, "the column").flatMap { case (column, computed) =>
    new PushDown("the column", Seq(condition), Reach.withinStage, toScan)(plan, Seq(column), computed)
  }

  /** A scan that a filter has reached.
    *
    * @param crossed whether the scan must return the same rows in every attempt: there is an exchange between producer
    *   and scan, or another operator with that need
    * @param computed how the filter's key is computed from the only column, if it is ([[MonotoneExpressions.of]])
    */
  final case class Reached(scan: SparkPlan, columns: Seq[Attribute], crossed: Boolean, computed: Option[Expression]) {

    /** The columns, or the key that is computed from the only one, for plans and reports. */
    def shownNames: Seq[String] = columns.map { c =>
      computed match {
        case None => c.name
        case Some(field: GetStructField) => nameOf(field, c)
        case Some(e) => ExpressionText.withoutValues(MonotoneExpressions.on(e, c))
      }
    }
  }

  private def nameOf(e: Expression, column: Attribute): String = e match {
    case g: GetStructField => s"${nameOf(g.child, column)}.${g.extractFieldName}"
    case _ => column.name
  }

  /** @param crossed as in [[Reached]]
    * @param above the operators that the filter has passed, the lowest first
    * @param computed how the filter's key is computed from the column, if it is ([[MonotoneExpressions.of]])
    */
  private final case class Path(crossed: Boolean, above: List[SparkPlan], computed: Option[Expression]) {
    def below(p: SparkPlan): Path = copy(above = p :: above)
    def crossing(crosses: Boolean): Path = copy(crossed = crossed || crosses)

    /** The column is computed from another one. */
    def computing(column: Expression): Path =
      copy(computed = Some(computed.fold(column)(MonotoneExpressions.on(_, column))))
  }

  /** Why exchanges of a plan must not be filtered, if so.
    *
    * If an expression depends on the partition of a row after a shuffle, none may be: adaptive execution coalesces
    * partitions by the bytes of all shuffles that a stage reads together, so a filter below any of them may change
    * partitions.
    */
  def whyKeep(plan: SparkPlan, isShared: SparkPlan => Boolean): SparkPlan => Option[Reason] = {
    lazy val shows = Repeatable.showsPartitions(plan)
    exchange => if (isShared(exchange)) Some(Reasons.UsedTwice) else Option.when(shows)(Reasons.ShowsPartitions)
  }

  /** The column that a projection's expression passes on unchanged; None if it computes something. */
  def passedOn(e: NamedExpression): Option[AttributeReference] = e match {
    case a: AttributeReference => Some(a)
    case Alias(a: AttributeReference, _) => Some(a)
    case _ => None
  }

  /** How far a filter may go down.
    *
    * @param beyondExchange whether it is of use below an exchange, an aggregate or a sort. A TopK's bound is not: these
    *   have read all their input before there is a bound
    * @param whyKeep why an exchange must not be filtered by these of its columns, if so
    * @param showsPosition whether an operator above the producer depends on the position of a row in its partition
    * @param mayPass whether an expression of a projection may be evaluated for fewer rows
    */
  final case class Reach(
      beyondExchange: Boolean,
      whyKeep: (SparkPlan, Seq[Attribute]) => Option[Reason],
      showsPosition: () => Boolean,
      mayPass: NamedExpression => Boolean = RowValues.dependsOnRowOnly
  )
  object Reach {
    val withinStage: Reach = Reach(beyondExchange = false, (_, _) => None, () => false)
  }

  /** Why a bound stops at the operator: the scan has to be in the producer's own stage, without an operator between
    * that reads all its input before it returns a row.
    */
  def stopsBound(plan: SparkPlan): Reason = plan match {
    case _: SortExec | _: BaseAggregateExec | _: WindowExecBase | _: window.WindowGroupLimitExec =>
      Reasons.Blocking(plan.nodeName.trim)
    case _: SortMergeJoinExec | _: ShuffledHashJoinExec => Reasons.ShuffledJoin(plan.nodeName.trim)
    case other => stops(other)
  }

  /** Whether one of the columns is the result of an aggregate, not a grouping key. */
  def isOfGroups(plan: SparkPlan, columns: Seq[Attribute]): Boolean = plan.exists {
    case a: BaseAggregateExec =>
      def isKey(e: NamedExpression) = passedOn(e).exists(c => a.groupingExpressions.exists(_.exprId == c.exprId))
      a.resultExpressions.exists(e => columns.exists(_.exprId == e.exprId) && !isKey(e))
    case _ => false
  }

  def stops(plan: SparkPlan): Reason = plan match {
    case _: exchange.Exchange | _: adaptive.QueryStageExec => Reasons.OtherStage
    case other => OperatorRules.inTheWay(other)
  }
}
