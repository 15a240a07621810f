package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  Attribute,
  AttributeReference,
  ExplodeBase,
  Expression,
  Inline,
  NamedExpression,
  Stack
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
import org.dynamicfilters.operators.{BuildKeyTapExec, DynamicFilterScanExec}

/** Takes a filter from its producer down to scans, by attribute id, through the operators that let it pass.
  *
  * An operator lets a filter on column c pass if dropping input rows by c only changes output rows that the filter excludes
  * too, and nothing up to the producer fails for what they are then ([[ExcludedRows]]). Everything not listed stops it. A filter
  * on tuples of columns passes where all of them do, together.
  *
  * @param key
  *   what the column is to the producer, for reasons: "the sort key"
  * @param producer
  *   what the producer computes of each row
  * @param reach
  *   how far the filter may go
  * @param toScan
  *   filters one scan by the columns; the last argument says whether an exchange lies between, or something else for which the
  *   rows that the scan hands on have to be the same in every attempt
  */
final class PushDown(
    key: String,
    producer: Seq[Expression],
    reach: PushDown.Reach,
    toScan: (SparkPlan, Seq[Attribute], Boolean) => Either[String, SparkPlan]
) {
  import PushDown._

  // How often a part of the rows was left unfiltered: a branch of a union, or a join's rows beside their matches.
  private var unfiltered = 0

  /** The plan with every scan that the columns come from filtered, or why there is none. */
  def apply(plan: SparkPlan, columns: Seq[Attribute]): Either[String, SparkPlan] =
    down(plan, columns, Way(crossed = false, Nil))

  private def down(plan: SparkPlan, columns: Seq[Attribute], way: Way): Either[String, SparkPlan] = plan match {
    case _: FileSourceScanExec | _: DynamicFilterScanExec | OtherScans(_) => toScan(plan, columns, way.crossed)

    case p: FilterPassThrough =>
      Traverse(columns)(c => p.sourceOf(c).toRight(stops(plan))).flatMap { sources =>
        val child = plan.children.indexWhere(c => sources.forall(has(c, _)))
        if (child < 0) Left(s"$key is made by ${plan.nodeName.trim}")
        else
          down(plan.children(child), sources, way.below(plan))
            .map(c => plan.withNewChildren(plan.children.updated(child, c)))
      }

    case p: ProjectExec =>
      if (!p.projectList.forall(reach.mayPass)) Left("a non-deterministic projection is in the way")
      else {
        // What is made of a row's place above the scan shows which rows the scan dropped.
        val crosses = way.crossing(!p.projectList.forall(RowValues.areOfRow))
        Traverse(columns)(source(p.projectList, _)).flatMap(into(p, _, crosses))
      }

    case f: FilterExec =>
      if (f.condition.deterministic) into(f, columns, way) else Left("a non-deterministic filter is in the way")

    case j: BroadcastHashJoinExec => intoJoin(j, columns, way)
    case j: BroadcastNestedLoopJoinExec => intoJoin(j, columns, way)
    // By name: other shuffled joins (as-of) look for the nearest row, and with rows gone another one is.
    case j: SortMergeJoinExec if reach.beyondExchange => intoJoin(j, columns, way)
    case j: ShuffledHashJoinExec if reach.beyondExchange => intoJoin(j, columns, way)

    case u: UnionExec =>
      // Computed from all branches whenever it is asked for.
      val output = u.output
      val pushed = u.children.map { c =>
        Traverse(columns) { column =>
          val position = output.indexWhere(_.exprId == column.exprId)
          if (position < 0 || c.output(position).dataType != column.dataType)
            Left("the branches of the union differ in type")
          else Right(c.output(position))
        }.flatMap(down(c, _, way.below(u)))
      }
      if (pushed.exists(_.isLeft)) unfiltered += 1
      if (pushed.forall(_.isLeft)) pushed.head
      else Right(u.withNewChildren(u.children.zip(pushed).map { case (c, p) => p.getOrElse(c) }))

    case g: GenerateExec =>
      g.generator match {
        case _: ExplodeBase | _: Inline | _: Stack if g.generator.deterministic && columns.forall(has(g.child, _)) =>
          into(g, columns, way)
        case other => Left(s"the generator ${other.prettyName} is in the way")
      }

    // Hands on its input columns and appends what the functions return, row by row.
    case e: EvalPythonExec =>
      if (!e.udfs.forall(_.deterministic)) Left("a Python function that is not deterministic is in the way")
      else if (OperatorRules.seesPartition(e)) Left("a Python function over an iterator of batches is in the way")
      else if (columns.forall(has(e.child, _))) into(e, columns, way)
      else Left(s"$key is computed by a Python function")

    case e: ExpandExec => Traverse(columns)(inEachProjection(e, _)).flatMap(into(e, _, way))

    case c: CoalesceExec => into(c, columns, way)

    case s: SortExec if reach.beyondExchange => into(s, columns, way)
    case t: BuildKeyTapExec => into(t, columns, way)
    case a: BaseAggregateExec if reach.beyondExchange =>
      if (!a.expressions.forall(_.deterministic)) Left("a non-deterministic aggregate is in the way")
      else if (reach.showsPlace()) Left(ShowsOrder)
      else
        for {
          grouped <- Traverse(columns)(grouping(a, _))
          // Also in the same stage (of a bucketed table): the order of the groups that stay, and what they hold after a fall-back
          // to sorting, depend on how many groups there are.
          done <- checked(ExcludedRows.ofGroups(a, _, way.above, producer))(into(a, grouped, way.crossing(true)))
        } yield done
    case w: WindowExecBase if reach.beyondExchange => inPartitions(w, w.partitionSpec, columns, way)
    case w: window.WindowGroupLimitExec if reach.beyondExchange => inPartitions(w, w.partitionSpec, columns, way)
    case e @ (_: ShuffleExchangeLike | _: BroadcastExchangeLike) if reach.beyondExchange =>
      reach.keepsWhole(e, columns) match {
        case Some(reason) => Left(reason)
        case None => down(e.children.head, columns, way.below(e).crossing(true)).map(c => e.withNewChildren(Seq(c)))
      }
    case _: adaptive.QueryStageExec if reach.beyondExchange => Left(RunsAlready)
    case other => Left(stops(other))
  }

  private def has(plan: SparkPlan, column: Attribute): Boolean = plan.outputSet.contains(column)

  private def into(parent: UnaryExecNode, columns: Seq[Attribute], way: Way): Either[String, SparkPlan] =
    down(parent.child, columns, way.below(parent)).map(c => parent.withNewChildren(Seq(c)))

  /** What a column of a projection is below it. */
  private def source(list: Seq[NamedExpression], column: Attribute): Either[String, Attribute] =
    found(list, column, "projection")

  private def found(list: Seq[NamedExpression], column: Attribute, where: String): Either[String, AttributeReference] =
    list
      .find(_.exprId == column.exprId)
      .toRight(s"$key ${column.name} is not in the $where below")
      .flatMap(handedOn(_))

  private def handedOn(e: NamedExpression): Either[String, AttributeReference] =
    PushDown.handedOn(e).toRight(s"$key is computed: ${ExpressionText.of(e)}")

  /** What a column is below an operator that makes several rows of one: it has to be in all of them as it is. */
  private def inEachProjection(e: ExpandExec, column: Attribute): Either[String, Attribute] = {
    val at = e.output.indexWhere(_.exprId == column.exprId)
    e.projections.map(p => if (at < 0) None else Some(p(at))).distinctBy(_.map(_.canonicalized)) match {
      case Seq(Some(same: AttributeReference)) if e.projections.forall(_.forall(_.deterministic)) => Right(same)
      case _ => Left(s"$key is not in all the rows that ROLLUP, CUBE or GROUPING SETS make of one")
    }
  }

  /** Groups whose key the filter excludes are dropped as a whole, so the others keep all their rows. */
  private def grouping(a: BaseAggregateExec, column: Attribute): Either[String, Attribute] =
    for {
      x <- found(a.resultExpressions, column, "aggregate")
      g <- a.groupingExpressions
        .find(_.exprId == x.exprId)
        .toRight("an aggregate is in the way that does not group by the key")
      grouped <- handedOn(g)
    } yield grouped

  private def inPartitions(w: UnaryExecNode, by: Seq[Expression], columns: Seq[Attribute], way: Way) =
    if (columns.forall(c => by.exists { case a: Attribute => a.exprId == c.exprId; case _ => false }))
      checked(ExcludedRows.ofWindow(w, _, way.above, producer))(into(w, columns, way))
    else Left("a window is in the way that is not partitioned by the key")

  /** What is pushed, unless there is a reason why not.
    *
    * @param reason
    *   told whether all rows of the operator are filtered
    */
  private def checked(reason: Boolean => Option[String])(
      pushed: => Either[String, SparkPlan]
  ): Either[String, SparkPlan] =
    reason(true).toLeft(()).flatMap { _ =>
      val before = unfiltered
      pushed.flatMap(done => (if (unfiltered == before) None else reason(false)).toLeft(done))
    }

  /** Into the side that the columns belong to, and into the other side by the keys that equal the columns, as far as the
    * join's type lets it.
    */
  private def intoJoin(join: BaseJoinExec, columns: Seq[Attribute], way: Way): Either[String, SparkPlan] = {
    val isLeft = columns.forall(has(join.left, _))
    val rules = JoinSemantics.of(join)(isLeft)
    if (!isLeft && !columns.forall(has(join.right, _)))
      Left(
        if (columns.forall(c => has(join.left, c) || has(join.right, c))) s"$key comes from both sides of a join"
        else s"$key is made by a join"
      )
    else if (!rules.carries) Left(s"${JoinSemantics.withArticle(join.joinType)} is in the way")
    else {
      val before = unfiltered
      val own = intoSide(join, isLeft, columns, way)
      val isFiltered = own.isRight && unfiltered == before
      val equal = if (rules.carriesAcross) columns.flatMap(equalKey(join, isLeft, _)) else Nil
      val other = Option.when(equal.size == columns.size)(
        ExcludedRows
          .ofMatches(join, isLeft, isFiltered, way.above, producer)
          .toLeft(())
          .flatMap(_ => intoSide(join, !isLeft, equal, way))
      )
      (own, other) match {
        case (Right(o), Some(Right(x))) => Right(withSides(join, isLeft, o, x))
        case (Right(o), _) => Right(withSides(join, isLeft, o, if (isLeft) join.right else join.left))
        case (_, Some(Right(x))) =>
          if (!rules.mayLose) unfiltered += 1
          Right(withSides(join, isLeft, if (isLeft) join.left else join.right, x))
        case (Left(reason), _) => Left(reason)
      }
    }
  }

  private def withSides(join: BaseJoinExec, ownIsLeft: Boolean, own: SparkPlan, other: SparkPlan): SparkPlan =
    join.withNewChildren(if (ownIsLeft) Seq(own, other) else Seq(other, own))

  private def intoSide(
      join: BaseJoinExec,
      left: Boolean,
      columns: Seq[Attribute],
      way: Way
  ): Either[String, SparkPlan] = {
    val build = join match {
      case b: BroadcastHashJoinExec => Some(b.buildSide)
      case b: BroadcastNestedLoopJoinExec => Some(b.buildSide)
      case _ => None
    }
    if (!reach.beyondExchange && build.contains(if (left) BuildLeft else BuildRight))
      Left(s"$key comes from the build side of a broadcast join")
    else {
      // Rows without a match come out of a hash table, in an order that depends on how many rows it has.
      val isHashed = join match {
        case s: ShuffledHashJoinExec => s.buildSide == (if (left) BuildLeft else BuildRight)
        case _ => false
      }
      down(if (left) join.left else join.right, columns, way.below(join).crossing(isHashed))
    }
  }

  /** The column of the other side that equals this one wherever the join finds a match. Computed keys, those that `<=>` is
    * split into included, are none.
    */
  private def equalKey(join: BaseJoinExec, isLeft: Boolean, column: Attribute): Option[Attribute] = {
    val (mine, theirs) = if (isLeft) (join.leftKeys, join.rightKeys) else (join.rightKeys, join.leftKeys)
    mine.zip(theirs).collectFirst {
      case (a: Attribute, b: Attribute) if a.exprId == column.exprId && a.dataType == b.dataType => b
    }
  }
}

object PushDown {

  /** @param crossed
    *   whether an exchange lies between, or something else for which rows have to be the same in every attempt
    * @param above
    *   the operators that the filter has passed, the lowest first
    */
  private final case class Way(crossed: Boolean, above: List[SparkPlan]) {
    def below(p: SparkPlan): Way = copy(above = p :: above)
    def crossing(crosses: Boolean): Way = copy(crossed = crossed || crosses)
  }
  val RunsAlready = "the probe side runs already"

  /** Why an exchange is not narrowed that Spark computes once for several places, which need more rows than one of them. */
  val UsedTwice = "an exchange is in the way that another part of the query uses too"

  /** Why no exchange is narrowed where the partition shows that a row has after a shuffle. Adaptive execution makes partitions by
    * the bytes that stages put out: those of all shuffles that a stage reads together, and of the branches of a union by their
    * shares. So it does not matter where in the plan that shows.
    */
  val ShowsPartitions = "an exchange is in the way, and the query shows in which partition a row is"

  /** Why nothing is filtered below an aggregate where a row's place shows: its groups come out in an order that depends on how
    * many there are.
    */
  val ShowsOrder = "an aggregate is in the way, and the query shows in which order its groups are"

  /** Why an exchange of a plan must not be narrowed, if that is so.
    *
    * @param isShared
    *   whether another part of the query uses it, too
    */
  def keepsWhole(plan: SparkPlan, isShared: SparkPlan => Boolean): SparkPlan => Option[String] = {
    lazy val shows = Repeatable.showsPartitions(plan)
    exchange => if (isShared(exchange)) Some(UsedTwice) else Option.when(shows)(ShowsPartitions)
  }

  /** The column that an expression of a projection hands on as it is; None if it computes something. */
  def handedOn(e: NamedExpression): Option[AttributeReference] = e match {
    case a: AttributeReference => Some(a)
    case Alias(a: AttributeReference, _) => Some(a)
    case _ => None
  }

  /** How far a filter may go down.
    *
    * @param beyondExchange
    *   whether it is of use below an exchange, an aggregate or a sort: a TopK's bound is not, what is below is done before
    *   the bound is known
    * @param keepsWhole
    *   why an exchange must not be narrowed by these of its columns, if that is so
    * @param showsPlace
    *   whether an operator above the producer shows the place of a row among others
    * @param mayPass
    *   whether an expression of a projection may see fewer rows
    */
  final case class Reach(
      beyondExchange: Boolean,
      keepsWhole: (SparkPlan, Seq[Attribute]) => Option[String],
      showsPlace: () => Boolean,
      mayPass: NamedExpression => Boolean = RowValues.areOfRow
  )
  object Reach {
    val withinStage: Reach = Reach(beyondExchange = false, (_, _) => None, () => false)
  }

  def stops(plan: SparkPlan): String = plan match {
    case _: exchange.Exchange | _: adaptive.QueryStageExec =>
      "an exchange is in the way: the scan below is done before the bound is known"
    case other =>
      val what = OperatorRules.inTheWay(other).getOrElse(s"the operator ${other.nodeName.trim}")
      s"$what ${if (what.endsWith("metrics")) "are" else "is"} in the way"
  }
}
