package org.dynamicfilters.scan

import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{Selection, TupleSelector, ValueFilter}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state.{Cost, Tested}

/** Makes the tests by filters of tuples for the row groups of one file.
  *
  * @param isRead
  *   whether first passes read a column, by position in the required schema. If the file lacks the column, the tuple's
  *   filter is not evaluated
  */
final class TupleTests(task: TaskScan, file: PartitionedFile, isRead: Int => Boolean) {
  private val selectors: IndexedSeq[Option[TupleSelector]] = task.spec.tuples.map { t =>
    val fixed = t.parts.map { p =>
      Option.when(p.isPartitionColumn)(p.part.domain.fromRow(file.partitionValues, p.partitionOrdinal))
    }
    Option.when(t.parts.forall(p => p.isPartitionColumn || isRead(p.ordinal)))(
      new TupleSelector(t.parts.map(_.part), fixed)
    )
  }

  /** The tests for one row group or batch, by complete filters that their trackers have not disabled.
    *
    * @param isUsed
    *   by position among the scan's filters
    */
  def forRowGroup(isUsed: Int => Boolean = _ => true): Seq[TupleTest] =
    if (selectors.isEmpty) Nil
    else {
      val now = task.tuples()
      for {
        i <- selectors.indices
        selector <- selectors(i)
        at = task.spec.columns.size + i
        if now(i) != ValueFilter.All && isUsed(at) && task.steps.tuples(i).isTaken()
      } yield new TupleTest(
        at,
        selector,
        now(i),
        task.spec.tuples(i).parts.map(_.ordinal),
        (rows, passed) => task.steps.tuples(i).add(Tested(rows, passed, Cost.none)),
        task.report
      )
    }
}

/** A test by one filter of tuples, for one row group or batch.
  *
  * @param ordinals
  *   by part, the position of its column
  */
final class TupleTest(
    val at: Int,
    selector: TupleSelector,
    filter: ValueFilter,
    ordinals: IndexedSeq[Int],
    record: (Long, Long) => Boolean,
    report: ScanReport
) extends MultiColumnTest {
  private var before, after = 0L
  private var finished = false

  override def select(vector: Int => ColumnVector, s: Selection): Unit = {
    before += s.count
    selector.select(filter, part => vector(ordinals(part)), s)
    after += s.count
  }

  /** Records the selectivity among rows that pass the columns' own filters. Only of the first pass: a second pass sees
    * only rows that the first one kept.
    */
  override def finish(): Unit = if (!finished) {
    finished = true
    if (record(before, after)) report.addReason(Reasons.TuplesPass)
  }
}
