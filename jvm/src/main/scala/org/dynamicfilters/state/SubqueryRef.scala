package org.dynamicfilters.state

import org.apache.spark.sql.catalyst.expressions.Expression
import org.dynamicfilters.filter.{Comparison, KeyDomain, ValueFilter}
import org.dynamicfilters.reasons.Reason

/** The filter of a column that is compared with values of scalar subqueries: `id > (SELECT ...)`.
  *
  * Spark computes the values before the scan starts, once for all runs of a plan. So the filter has one generation,
  * which travels with the scan's tasks without waits, and every attempt of a task drops the same rows (contract 8).
  *
  * Two are equal if they compare with equal values by the same operators.
  *
  * @param values the expressions at planning, for comparisons; null on executors. Spark's rules may replace them later,
  *   so the scan evaluates its own (`SpecScan.values`)
  */
final class SubqueryRef private (
    id: Long,
    private val domain: KeyDomain,
    private val operators: Seq[Comparison.Value],
    @transient private val values: Seq[Expression]
) extends FilterRef(id, Producer.subquery) {

  /** What the driver knows of the filter; null on executors. */
  @transient val state: SubqueryState = new SubqueryState(id)

  @transient private lazy val canonical: Seq[Expression] = if (values == null) null else values.map(_.canonicalized)

  /** The condition on the column. A NULL value passes no rows; with `<=>`, only NULL rows.
    *
    * @param of Catalyst values, in the order of the operators
    */
  def filter(of: Seq[Any]): ValueFilter =
    operators.zip(of).map { case (operator, value) => Comparison.filter(operator, domain, value) }.reduce(_ and _)

  override def driverRun: PlanRun = state

  override def equals(other: Any): Boolean = other match {
    case that: SubqueryRef =>
      (that eq this) || (that.operators == operators && that.domain == domain &&
        canonical != null && that.canonical == canonical)
    case _ => false
  }
  override def hashCode: Int = (operators, domain).hashCode
}

object SubqueryRef {

  /** @param values the expressions that the column is compared with, by operator */
  def apply(domain: KeyDomain, operators: Seq[Comparison.Value], values: Seq[Expression]): SubqueryRef =
    FilterRef.register(new SubqueryRef(FilterRef.nextId(), domain, operators, values))
}

/** The state of a subquery's filter on the driver. Executions of a plan share it and the values. Thread-safe. */
final class SubqueryState(val filterId: Long) extends ShownFilter with PlanRun {
  @volatile private var computed: Option[Either[Reason, ValueFilter]] = None
  @volatile private var times = FilterTimes(System.currentTimeMillis())

  /** The filter, or why there is none; None before a scan has started. */
  def outcome: Option[Either[Reason, ValueFilter]] = computed
  def filter: Option[ValueFilter] = computed.flatMap(_.toOption)
  def named: Option[NamedFilter] = filter.map(NamedFilter(FilterName(filterId, 1), _))

  /** A scan starts with these values. All its scans have the same. */
  def started(result: Either[Reason, ValueFilter]): Unit = synchronized(if (computed.isEmpty) {
    val now = System.currentTimeMillis()
    times = times.copy(ready = now, used = now)
    computed = Some(result)
  })

  /** When it was complete, for reports. */
  def filterTimes: FilterTimes = times

  override def shown(column: String): String = computed match {
    case None => FilterRef.NotKnownYet
    case Some(result) => result.fold(_ => "true", _.shown(column, showsValues))
  }
}
