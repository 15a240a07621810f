package org.dynamicfilters.scan

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.dynamicfilters.filter.{ColumnBounds, PluginFailure}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.scan.statistics.SplitFacts

/** One split of a file in a task's scan. Made when the task starts with it. */
private[scan] final class SplitRead(val task: TaskScan, val file: PartitionedFile) extends Logging {

  /** A time before the file was opened, in milliseconds since 1970. */
  val askedAt: Long = System.currentTimeMillis()

  def facts: SplitFacts = task.files(file)

  /** Bounds of a column of the spec that hold without a check of the file. */
  def certainBounds(column: Int): ColumnBounds = facts.certainBounds(task.spec, file, column)

  /** Whether a filter excludes the split before its file is opened: by partition values, by bounds from the table's
    * format, or by learned statistics if the file is unchanged.
    */
  def isExcluded: Boolean =
    try excludes(task.pruner())
    catch {
      case PluginFailure(e) =>
        task.report.addReason(Reasons.Failed(e, "checking a file"))
        logWarning("Dynamic filters: failure while checking a file; it is read", e)
        false
    }

  private def excludes(now: Pruner): Boolean =
    now.excludes(certainBounds) ||
      (facts.hasLearned && now.excludes(facts.bounds(task.spec, file, _)) && task.files.isAsListed(file))
}
