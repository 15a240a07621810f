package org.dynamicfilters.scan.parquet

import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.dynamicfilters.filter.ColumnBounds
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.scan.{RowRanges, ScanCounter, TaskScan}

/** A row group of a split.
  *
  * @param bounds by filtered column of the files
  * @param left rows that the query's static predicates leave by the page index, None for all; stock Spark would read
  *   only these
  * @param hasPageIndex see [[ColumnBytes.hasPageIndex]]
  */
final class RowGroup(
    val block: BlockMetaData,
    val index: Int,
    val bounds: Array[ColumnBounds],
    val left: Option[RowRanges],
    val hasPageIndex: Boolean
) {
  val rowCount: Long = block.getRowCount
  val leftCount: Long = left.fold(rowCount)(_.count)
}

/** The reading of one row group, until its rows are consumed. Measures its cost.
  *
  * @param isComparable whether the cost may be compared with that of others
  */
private[scan] final class GroupScan(task: TaskScan, val group: RowGroup, isComparable: Boolean) {
  private val since = System.nanoTime()
  private var first: Option[FirstPart] = None
  private var last: Decision = _
  private var firstPass: Option[Boolean] = None

  /** Records that rows were read as decided. */
  def admitted(d: Decision): Unit = {
    last = d
    firstPass = d.firstPass.orElse(firstPass)
    d.read match {
      case GroupRead.First(part) => first = Some(part)
      case _ =>
    }
  }

  /** The first part, if it was read. */
  def firstPart: Option[FirstPart] = first

  /** Whether a second part follows. */
  def hasMore: Boolean = last.read.isInstanceOf[GroupRead.First]

  /** Whether a first pass found the rows that were read. */
  def hasChosenRows: Boolean = first.isDefined || last.read.isChosen

  /** Records the cost once the rows are consumed. */
  def recordCost(): Unit = {
    val nanos = System.nanoTime() - since
    def disables(isTaken: Boolean) = task.steps.firstPass.recordTime(isTaken, group.leftCount, nanos)
    if (isComparable && task.comparesTimes && firstPass.exists(disables))
      task.report.addReason(Reasons.ReadAtOnce)
    task.rowTests.recordRowGroupTime(nanos)
  }
}

/** What is read of a row group.
  *
  * @param firstPass whether filter columns were read first. None: there was no choice, or the first pass was stopped
  */
final case class Decision(read: GroupRead, firstPass: Option[Boolean] = None)

sealed trait GroupRead {

  /** Whether a first pass found the rows. */
  def isChosen: Boolean = false
}
object GroupRead {

  /** Nothing more is read. */
  final case class Prune(by: ScanCounter.Value) extends GroupRead

  /** All rows are read, as in stock Spark. */
  case object All extends GroupRead
  final case class Rows(rows: RowRanges, override val isChosen: Boolean) extends GroupRead

  /** The first part is read; the rest is decided after it. */
  final case class First(part: FirstPart) extends GroupRead
}

/** The best rows of a row group, which are returned before the rest.
  *
  * @param restBounds bounds of the first filtered column in the rest
  */
final case class FirstPart(rows: RowRanges, restBounds: ColumnBounds)
