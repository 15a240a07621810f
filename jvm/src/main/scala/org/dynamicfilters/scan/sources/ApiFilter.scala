package org.dynamicfilters.scan.sources

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.dynamicfilters.api.{ColumnFilter, DynamicFilter}
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain, ValueFilter}
import org.dynamicfilters.scan.{FilteredColumn, ScanPlace}
import org.dynamicfilters.state.{FilterRef, JoinRef}

/** The filter that a custom scan gets through `org.dynamicfilters.api`. */
final class ApiFilter(val ref: FilterRef, val column: Attribute, val domain: KeyDomain, val place: ScanPlace)
    extends DynamicFilter
    with FilteredColumn {
  override def id: Long = ref.id

  override def current: ColumnFilter = new ApiColumnFilter(now, domain, column.name)

  private def now: ValueFilter = ConsumerTask.current(this).getOrElse {
    ref match {
      // Outside of tasks only a complete filter is used: the filters of running producers belong to tasks.
      case j: JoinRef if j.state != null => j.state.current.map(_.convert(domain)).getOrElse(ValueFilter.All)
      case _ => ValueFilter.All
    }
  }

  // Compares the column by name. Its id changes when Spark canonicalizes plans, of which this object is an argument.
  override def equals(other: Any): Boolean = other match {
    case that: ApiFilter => that.ref == ref && that.column.name == column.name && that.domain == domain
    case _ => false
  }
  override def hashCode: Int = (ref, column.name).hashCode
  override def toString: String = ref.describe(column.name)
}

/** One state of an [[ApiFilter]], as the custom scan sees it. */
private[dynamicfilters] final class ApiColumnFilter(filter: ValueFilter, domain: KeyDomain, name: String)
    extends ColumnFilter {
  override def everythingPasses: Boolean = filter == ValueFilter.All
  override def nothingPasses: Boolean = filter == ValueFilter.Nothing
  override def mayMatch(value: Any): Boolean = filter.passes(domain.fromInternal(value))
  override def mayMatchBetween(min: Any, max: Any, nulls: Boolean): Boolean =
    filter.couldPass(ColumnBounds(domain.fromInternal(min), domain.fromInternal(max), nulls, mayHaveValues = true))

  override def values: Option[Seq[Any]] = filter.points.map(_.map(domain.toInternal))

  override def describe: String = filter.expression(name)
  override def toString: String = describe
}
