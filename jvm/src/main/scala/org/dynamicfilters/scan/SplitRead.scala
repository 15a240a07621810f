package org.dynamicfilters.scan

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.dynamicfilters.filter.{ColumnBounds, PluginFailure}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state.ReadPlace

/** One split of a file in a task's scan, from [[TaskScan.open]] until the next one. Newer filters may come into force at
  * its start and at each of its row groups, unless the file is read without seeing its row groups.
  *
  * @param number position among the splits of the partition
  */
private[scan] final class SplitRead(val task: TaskScan, val file: PartitionedFile, number: Int) extends Logging {

  /** A time before the file was opened, in milliseconds since 1970. */
  val askedAt: Long = System.currentTimeMillis()

  /** Starts a row group.
    *
    * @param isComparable whether its cost may be compared with that of others
    */
  def rowGroup(group: RowGroup, isComparable: Boolean): GroupScan = {
    task.advance(ReadPlace(number, group.block.getStartingPos))
    new GroupScan(task, group, isComparable)
  }

  /** Reads the file without seeing its row groups. */
  def withoutRowGroups(): Unit = task.fixed.foreach(_.readWholeFile())

  def facts: SplitFacts = task.files(file)

  /** Bounds of a column of the spec that hold without a check of the file. */
  def certainBounds(column: Int): ColumnBounds = facts.certainBounds(task.spec, file, column)

  /** Whether a filter excludes the split before its file is opened: by partition values, by bounds from the table's
    * format, or by learned statistics if the file is unchanged.
    */
  def isExcluded: Boolean =
    try excludes(task.pruner(task.allFilters()))
    catch {
      case PluginFailure(e) =>
        task.report.addReason(Reasons.Failed(e, "checking a file"))
        logWarning("Dynamic filters: failure while checking a file; it is read", e)
        false
    }

  private def excludes(now: Pruner): Boolean = {
    // Each attempt checks whether the file is unchanged, and two attempts may differ in that. The output must not depend
    // on it if rows are not tested.
    def bounds(i: Int) =
      if (task.fixed.exists(!_.isTested(i))) certainBounds(i) else facts.bounds(task.spec, file, i)
    now.excludes(certainBounds) || (facts.hasLearned && now.excludes(bounds) && task.files.isAsListed(file))
  }
}
