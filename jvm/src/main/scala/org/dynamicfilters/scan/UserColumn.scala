package org.dynamicfilters.scan

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.dynamicfilters.filter.{KeyDomain, ValueFilter}
import org.dynamicfilters.state.{FilterRef, TaskFilters, UserRef}

/** A user's filter on one column of a scan, in one task: what is pinned, or what tightened it since if the scan follows that.
  *
  * @param domain
  *   the column's type
  */
private[scan] final class UserColumn(domain: KeyDomain) {
  private var seen: ValueFilter = _
  private var converted: ValueFilter = _

  /** The filter as of now. */
  def apply(ref: UserRef, context: TaskContext): ValueFilter =
    try if (ref.follows) newest(ref, context) else ref.generation.filterFor(domain)
    catch {
      // The rows are looked at again above the scan.
      case NonFatal(_) => ValueFilter.All
    }

  private def newest(ref: UserRef, context: TaskContext): ValueFilter =
    TaskFilters.executionId(context) match {
      case None => ref.generation.filterFor(domain)
      case Some(execution) =>
        FilterRef.user(execution, ref.id) match {
          // In the driver's own process.
          case Some(state) => state.newest.filterFor(domain)
          case None => TaskFilters.late(context, ref.id).fold(ref.generation.filterFor(domain))(convert)
        }
    }

  private def convert(f: ValueFilter): ValueFilter = {
    if (f ne seen) {
      converted = f.convert(domain)
      seen = f
    }
    converted
  }
}
