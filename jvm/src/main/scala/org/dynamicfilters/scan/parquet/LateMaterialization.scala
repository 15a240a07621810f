package org.dynamicfilters.scan.parquet

import java.io.Closeable

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, IsNotNull}
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.scan._
import org.dynamicfilters.state.{Producer, StepTracker, TopKSpec}

/** Late materialization: reads few columns of a row group first, to find the rows to read in full. Used by
  * [[DynamicRowGroups]].
  *
  * There are two kinds of passes: over the filters' columns, then, for rows that pass, over the columns of the query's
  * own predicates, which may be wide (a URL). The second may be made in two steps ([[KeyWindows]]). Both are skipped if
  * the other columns are too small to save anything, or if measurements say that they do not pay
  * ([[org.dynamicfilters.state.StepTracker]]).
  */
final class LateMaterialization(
    scan: SplitRead,
    access: ParquetReaderAccess,
    columns: IndexedSeq[FileColumn],
    bytes: ColumnBytes
) extends Closeable {
  import LateMaterialization._
  import ScanCounter._

  import scan.{file, task}
  private val spec = task.spec
  private val report = task.report

  // Columns that the file lacks are constants and need no pass. Parquet cannot read a row group without columns.
  private val filterFields = columns.filter(_.isRead).map(_.ordinal).distinct
  private val topK: Option[TopKSpec] =
    columns.headOption
      // Rows with the same computed key may differ in the column, whose best rows need not be the best by the key.
      .filter(c => c.index == TaskScan.OrderingColumn && !c.filtered.either && c.filtered.key.isEmpty && c.isRead)
      .flatMap(_.filtered.ref.topK)
      .filterNot(_.keepsOrder)
  private val (cheap, costly) =
    spec.predicates
      .filter(p => ordinalsOf(p).forall(bytes.isStored) && mayLeaveOutRows(p))
      .partition(p => ordinalsOf(p).forall(filterFields.contains))

  /** Spark adds IS NOT NULL for the keys of joins. Few keys are NULL, so a pass for this predicate drops few rows and
    * decodes the columns twice: in TPC-DS q70 it took 31 of the 53 ms of all first passes.
    */
  private def mayLeaveOutRows(p: Expression): Boolean = !(spec.isForJoinsOnly && p.isInstanceOf[IsNotNull])

  /** Tests rows that are read without a first pass, by all filters that the reader tests. */
  lazy val tests: BatchSelector = {
    // SnapshotSelector tests the filters of the partition's snapshot.
    val tested = columns.filter(c => c.isRead && !c.filtered.either && !task.isInSnapshot(c.index))
    val positions = tested.map(c => (c.index, c.ordinal))
    new BatchSelector(() => task.rowTests.active(task.filters(), positions), task.rowTests, report)
  }

  // By filter, the rows of a row group that its first pass has tested, and those of them that passed.
  private val tested, passed = new Array[Long](spec.columns.size)

  // By their fields and predicates.
  private val passes = mutable.HashMap.empty[(IndexedSeq[Int], Seq[Expression]), FirstPass]
  private def passOver(filters: IndexedSeq[RowFilter], predicates: Seq[Expression]): FirstPass = {
    val fields = (filters.map(_.position) ++ predicates.flatMap(ordinalsOf)).distinct
    passes.getOrElseUpdate((fields, predicates), new FirstPass(access, fields, predicates, file, count))
  }

  private def count(filter: Int, before: Long, after: Long, nanos: Long): Unit = {
    tested(filter) += before
    passed(filter) += after
  }

  /** The filters of the next pass: all if none of them pays, because then `ScanSteps.firstPass` decides. */
  private def inPass(filters: IndexedSeq[RowFilter]): IndexedSeq[RowFilter] = {
    val paying = filters.filter { f =>
      spec.columns(f.at).ref.producer != Producer.join || task.steps.inFirstPass(f.at).takesNext()
    }
    if (paying.exists(_.filter != ValueFilter.All)) paying else filters
  }

  private def recordRows(filters: IndexedSeq[RowFilter]): Unit =
    filters.foreach(f => task.steps.inFirstPass(f.at).recordRows(tested(f.at), passed(f.at)))

  /** @param filters by filtered column of the files
    * @param either filters of which a row needs to pass only one; `filters` has All in their place
    * @param pages rows that static predicates and filters leave by the page index; None for all
    */
  def decide(
      group: RowGroup,
      firstPart: Option[FirstPart],
      filters: IndexedSeq[ValueFilter],
      either: Option[DisjunctionTest],
      pages: Option[RowRanges],
      learner: StatisticsLearner
  ): Decision = {
    def plain: GroupRead =
      (pages ++ firstPart.map(_.rows.complement(group.rowCount))).reduceOption(_ intersect _) match {
        case None => GroupRead.All
        case Some(rows) => if (rows.isEmpty) GroupRead.Prune(ByRows) else GroupRead.Rows(rows, isChosen = false)
      }
    def readPlainly = Decision(plain)
    val bound = filters.exists(f => f != ValueFilter.All) || either.nonEmpty
    val selects = bound || spec.predicates.nonEmpty
    // For a TopK over groups, more rows of the best keys would be in the rest.
    val splittable = topK.exists(k => k.limit < group.leftCount / MinRowsPerBest && !k.distinct) &&
      bytes.canSkipRows(group.block) && firstPart.isEmpty
    val anything = (filterFields.nonEmpty && (bound || splittable)) || costly.nonEmpty
    if (!spec.lateMaterialization || !anything) return readPlainly
    // Only the query's own predicates would drop rows, and stock Spark does not read their columns first either. (A
    // TopK gets its bound from rows that pass them, so a pass is worth its cost before there is a bound.)
    if (!bound && spec.isForJoinsOnly) return readPlainly
    if (!savesEnough(group)) return readPlainly
    val tracker = task.steps.firstPass
    // For the second part of a row group, the first has asked.
    if (firstPart.isEmpty && !tracker.takesNext()) return Decision(plain, Some(false))
    val candidates = pages.fold(group.rowCount)(_.count)
    val found = run(group, filters, either, pages, splittable, learner)
    // Before a TopK has its first bound, a pass that keeps most rows does not predict the next one.
    def record(passed: Long, bytes: Double): Unit = if (selects || passed <= candidates * spec.giveUpSelectivity) {
      tracker.recordBytesLeft(bytes)
      if (tracker.recordRows(candidates, passed)) report.addReason(Reasons.ReadAtOnce)
    }
    if (found.isEmpty) {
      record(candidates, 1)
      return readPlainly
    }
    val survivors = found.get
    def readLate(read: GroupRead): Decision = {
      if (firstPart.isEmpty) report.add(LateMaterialized, 1)
      Decision(read, Some(true))
    }
    val rows = firstPart.fold(survivors.rows)(d => survivors.rows.intersect(d.rows.complement(group.rowCount)))
    val passed = rows.count + firstPart.fold(0L)(_.rows.count)
    val share = passed.toDouble / math.max(candidates, 1)

    if (rows.isEmpty) {
      record(passed, 0)
      readLate(GroupRead.Prune(ByRows))
    } else
      (for {
        spec <- topK
        best <- survivors.best
        key <- best.bound
        if !survivors.complete ||
          (rows.count > math.max(spec.limit * MinRowsPerBest, StepTracker.FewRows) && tightens(spec, key, filters.head))
      } yield (spec, best, key)) match {
        case Some((spec, best, key)) =>
          val restBounds =
            if (key == null) ColumnBounds.unknown
            else if (spec.ascending) ColumnBounds(key, null, !spec.nullsFirst, mayHaveValues = true)
            else ColumnBounds(null, key, !spec.nullsFirst, mayHaveValues = true)
          val chosen = RowRanges.fromRows(best.rows)
          record(chosen.count, byteShare(group, pages, chosen))
          readLate(GroupRead.First(FirstPart(chosen, restBounds)))
        case None =>
          val touched = byteShare(group, pages, rows)
          record(passed, touched)
          if (!bytes.canSkipRows(group.block)) readLate(GroupRead.All)
          else if (share > ReadAllShare) readLate(plain)
          else readLate(GroupRead.Rows(rows, isChosen = true))
      }
  }

  /** Whether `key` is a tighter bound than the current one. */
  private def tightens(spec: TopKSpec, key: AnyRef, inForce: ValueFilter): Boolean =
    !inForce.implies(spec.atLeastAsGoodAs(key, inclusive = !spec.tiesFree))

  /** @return None if the pass was stopped */
  private def run(
      group: RowGroup,
      filters: IndexedSeq[ValueFilter],
      either: Option[DisjunctionTest],
      pages: Option[RowRanges],
      splittable: Boolean,
      learner: StatisticsLearner
  ): Option[Survivors] = {
    val byField = columns.zip(filters).collect { case (c, f) if c.isRead => RowFilter(c.index, c.ordinal, f) }
    val best = if (splittable) topK.map(BestRowsOfGroup(_)) else None

    val second = costly.nonEmpty
    val bound = byField.exists(_.filter != ValueFilter.All) || either.nonEmpty
    val windows = if (second && best.isDefined) KeyWindows.forSpec(topK.get, group.rowCount) else None
    // Whether the pass over predicates is the first pass.
    val isFirst = filterFields.isEmpty || (second && !bound && windows.isEmpty)
    val watch = if (isFirst) None else learner.watch(group, pages)
    val used = if (watch.isEmpty && either.isEmpty) inPass(byField) else byField

    def pass(
        p: FirstPass,
        rows: Option[RowRanges],
        best: Option[BestRowsOfGroup],
        observe: FirstPass.BatchObserver,
        stop: FirstPass.Stop
    ): Option[RowRanges] = {
      // Counts with the page indexes of the main reader, which the narrow reader shares.
      bytes.count(report, access.fileReader, group.index, Some(p.fields), rows)
      p.run(group, rows, RowFilters(used, either), best, observe, stop)
    }
    // Spark's own filter evaluates the predicates again. So this pass stops if nearly all of the first rows pass,
    // unless it is to find the best rows.
    def passPredicates(rows: Option[RowRanges]): RowRanges =
      pass(
        passOver(used, if (isFirst) cheap ++ costly else costly),
        rows,
        best,
        observe = (_, _, _) => (),
        FirstPass.Stop(aboveAll = if (best.isEmpty) ReadAllShare else 1)
      )
        .getOrElse {
          report.addReason(Reasons.AskedOnce)
          rows.getOrElse(RowRanges.all(group.rowCount))
        }

    var rows = pages
    if (!isFirst) {
      // Stock Spark does not read the predicates' columns first, so the filters must be selective to go on. A pass that
      // learns bounds is completed, because bounds are worth more than the pass costs.
      val giveUpAbove = if (spec.isForJoinsOnly && watch.isEmpty) spec.giveUpSelectivity else 1.0
      val observe: FirstPass.BatchObserver = { (column, n, numbers) =>
        watch.foreach(_.add(column, n))
        windows.foreach(_.add(column(filterFields.head), n, numbers))
      }
      val stop = FirstPass.Stop(aboveFilters = giveUpAbove)
      Seq(tested, passed).foreach(java.util.Arrays.fill(_, 0L))
      val completed = pass(passOver(used, cheap), rows, if (second) None else best, observe, stop)
      recordRows(used)
      if (completed.isEmpty) return None
      val found = completed.get
      watch.foreach(_.finish())
      if (second && found.count > rows.fold(group.rowCount)(_.count) * giveUpAbove)
        return Some(Survivors(found, best, complete = true))
      rows = if (second && !found.isEmpty && !bytes.canSkipRows(group.block)) None else Some(found)
    }
    if (!second || rows.exists(_.isEmpty)) Some(Survivors(rows.get, best, complete = true))
    else if (windows.isEmpty) Some(Survivors(passPredicates(rows), best, complete = true))
    else {
      val (bestRows, gathered) = (best.get, windows.get)
      val candidates = rows.getOrElse(RowRanges.all(group.rowCount))
      def passed(of: RowRanges): RowRanges = {
        val left = of.intersect(candidates)
        if (left.isEmpty) left else passPredicates(Some(left))
      }
      val first = passed(gathered.bestWindows)
      val rest = gathered.otherWindows(bestRows.bound)
      Some(Survivors(first.union(passed(rest.better)), best, complete = rest.isAll))
    }
  }

  /** Share of the bytes of `pages` that is read for these rows; without a page index, of the rows that are decoded. */
  private def byteShare(group: RowGroup, pages: Option[RowRanges], rows: RowRanges): Double =
    // Without a page index, a page is read for each range, beside the range's own rows.
    if (!group.hasPageIndex) math.min(1, (rows.count + rows.ranges * KeyWindows.Rows).toDouble / group.rowCount)
    else {
      def read(rows: Option[RowRanges]) = bytes.read(access.fileReader, group.index, None, rows)
      read(Some(rows)).toDouble / math.max(read(pages), 1L)
    }

  /** Whether dropped rows save enough: either bytes of the other columns, or work on rows above the scan, which is a
    * shuffle, an aggregate that needs hardly any row, or a user's request to prune.
    */
  private def savesEnough(group: RowGroup): Boolean = {
    val requested = bytes.requested(group.block)
    val first = (filterFields ++ costly.flatMap(ordinalsOf)).distinct.map(bytes.columnBytes(group.block, _)).sum
    spec.crossesExchange || spec.isForAggregate || spec.followsUpdates ||
    requested - first >= first * MinSavedBytes
  }

  override def close(): Unit = passes.values.foreach(_.close())
}

private[scan] object LateMaterialization {

  /** @param complete whether `rows` has all passing rows. If not, `best` has a bound, and no other row is better */
  final case class Survivors(rows: RowRanges, best: Option[BestRowsOfGroup], complete: Boolean)

  /** The best rows are returned first only if there are at least this many times as many rows. */
  val MinRowsPerBest = 8L

  /** The other columns must have at least this many times the bytes of the columns that are read first. */
  private val MinSavedBytes = 0.5

  /** Above this share of rows or bytes, reading all costs less than skipping. */
  val ReadAllShare = 0.9

  def ordinalsOf(p: Expression): Seq[Int] = p.collect { case b: BoundReference => b.ordinal }.distinct
}
