package org.dynamicfilters.scan

import java.io.Closeable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.dynamicfilters.filter.{TupleSelector, ValueFilter}

/** The exact test between a scan and the exchange above it (contract 8): whatever was read, and however, only rows that pass
  * the partition's snapshot go on. Reading by statistics, pages and first passes, and what falls back to stock Spark's, so
  * changes what reading costs and not which rows there are.
  *
  * Over all that the scan's RDD puts out, in batches or rows. Filters of TopKs have no part in it: their taps are exact.
  */
private[scan] final class SnapshotSelector(task: TaskScan) {
  private val spec = task.spec

  // Partition columns follow those that are read.
  private def at(ordinal: Int, partitionOrdinal: Int): Int =
    if (ordinal >= 0) ordinal else spec.requiredSchema.length + partitionOrdinal

  private val columns: IndexedSeq[(Int, Int)] =
    spec.columns.zipWithIndex.collect {
      case (c, i) if c.ref.topK.isEmpty => (i, at(c.ordinal, c.partitionOrdinal))
    }
  private val tuples = spec.tuples.map { t =>
    (
      new TupleSelector(t.parts.map(_.part), t.parts.map(_ => None)),
      t.parts.map(p => at(p.ordinal, p.partitionOrdinal))
    )
  }

  private def passes(): Seq[RowPass] = {
    val now = task.tuples()
    tuples.indices.collect {
      case i if now(i) != ValueFilter.All =>
        val (selector, ordinals) = tuples(i)
        new TuplePass(selector, now(i), ordinals, task.tupleJudges(i), task.report)
    }
  }

  private val batches = new BatchSelector(() => task.filters(), columns, () => passes(), task.batchJudge, task.report)

  /** The rows of a scan that pass.
    *
    * @param rows
    *   `ColumnarBatch`es or `InternalRow`s. A batch may become one without rows
    */
  def apply[T](rows: Iterator[T]): Iterator[T] = new Iterator[T] with Closeable {
    private var ahead: Option[T] = None
    private var version = -1
    private var filters = IndexedSeq.empty[ValueFilter]

    override def hasNext: Boolean = {
      while (ahead.isEmpty && rows.hasNext) rows.next() match {
        case b: ColumnarBatch => ahead = Some(batches(b).asInstanceOf[T])
        case r: InternalRow =>
          if (version != task.filtersVersion) {
            filters = task.filters()
            version = task.filtersVersion
          }
          if (passes(r, filters)) ahead = Some(r.asInstanceOf[T])
        case other => ahead = Some(other)
      }
      ahead.isDefined
    }

    override def next(): T = {
      if (!hasNext) throw new NoSuchElementException
      val row = ahead.get
      ahead = None
      row
    }

    override def close(): Unit = rows match {
      case c: Closeable => c.close()
      case _ =>
    }
  }

  private def passes(row: InternalRow, filters: IndexedSeq[ValueFilter]): Boolean = {
    val passing = columns.forall { case (i, ordinal) => filters(i).passesRow(row, ordinal) }
    if (!passing) {
      task.report.add(ScanCounter.RowsDropped, 1)
      task.report.add(ScanCounter.RowsOutput, -1)
    }
    passing
  }
}
