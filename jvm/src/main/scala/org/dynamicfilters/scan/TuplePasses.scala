package org.dynamicfilters.scan

import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.vectorized.ColumnVector
import org.dynamicfilters.filter.{Selection, TupleSelector, ValueFilter}
import org.dynamicfilters.state.{Cost, Tested}

/** The filters of tuples of one scan in one file: which of them are worth evaluating in its row groups.
  *
  * @param isRead
  *   whether first passes read a column, by position in the required schema. They do not where the file lacks it: then the
  *   tuple's filter is not evaluated
  */
final class TuplePasses(task: TaskScan, file: PartitionedFile, isRead: Int => Boolean) {
  private val selectors: IndexedSeq[Option[TupleSelector]] = task.spec.tuples.map { t =>
    val fixed = t.parts.map { p =>
      Option.when(p.isPartitionColumn)(p.part.domain.fromRow(file.partitionValues, p.partitionOrdinal))
    }
    Option.when(t.parts.forall(p => p.isPartitionColumn || isRead(p.ordinal)))(
      new TupleSelector(t.parts.map(_.part), fixed)
    )
  }

  /** Those that are ready and have not been given up, for one row group.
    *
    * @param isUsed
    *   by place among the scan's filters
    */
  def ofRowGroup(isUsed: Int => Boolean = _ => true): Seq[TuplePass] =
    if (selectors.isEmpty) Nil
    else {
      val now = task.tuples()
      for {
        i <- selectors.indices
        selector <- selectors(i)
        at = task.spec.columns.size + i
        if now(i) != ValueFilter.All && isUsed(at) && task.steps.tuples(i).isTaken()
      } yield new TuplePass(
        at,
        selector,
        now(i),
        task.spec.tuples(i).parts.map(_.ordinal),
        (rows, passed) => task.steps.tuples(i).add(Tested(rows, passed, Cost.none)),
        task.report
      )
    }
}

/** One filter of tuples in one row group.
  *
  * @param ordinals
  *   by part, where its column is
  */
final class TuplePass(
    val at: Int,
    selector: TupleSelector,
    filter: ValueFilter,
    ordinals: IndexedSeq[Int],
    record: (Long, Long) => Boolean,
    report: ScanReport
) extends RowPass {
  private var before, after = 0L
  private var judged = false

  override def select(vector: Int => ColumnVector, s: Selection): Unit = {
    before += s.count
    selector.select(filter, part => vector(ordinals(part)), s)
    after += s.count
  }

  /** Tells how much it left out of the rows that pass the columns' own filters. A second pass sees only what the first one
    * left, and says nothing.
    */
  override def judge(): Unit = if (!judged) {
    judged = true
    if (record(before, after)) report.addReason("a filter of tuples let most rows pass and was given up")
  }
}
