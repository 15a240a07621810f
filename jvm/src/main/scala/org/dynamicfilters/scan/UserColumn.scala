package org.dynamicfilters.scan

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.dynamicfilters.filter.{KeyDomain, ValueFilter}
import org.dynamicfilters.state.{FilterRef, TaskFilters, UserRef}

/** A user's filter on one column of a scan in one task: the pinned generation, or a tighter one if it follows
  * updates.
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
      // The predicate above the scan tests the rows again.
      case NonFatal(_) => ValueFilter.All
    }

  private def newest(ref: UserRef, context: TaskContext): ValueFilter =
    TaskFilters.executionId(context) match {
      case None => ref.generation.filterFor(domain)
      case Some(execution) =>
        FilterRef.user(execution, ref.id) match {
          // In the driver's process.
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
