package org.dynamicfilters.scan

import java.io.Closeable

import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, IsNotNull}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}
import org.dynamicfilters.state.{Cost, StepTracker, Tested, TopKSpec}

/** Late materialization: which rows of a row group to read in full, found by reading few columns first.
  *
  * Two passes at most: the filters' columns, then, for rows that pass, the columns of the query's own predicates (which may
  * be wide, as a URL). Skipped where the columns left to read are too few to win anything, and where measurements say that it
  * does not pay ([[org.dynamicfilters.state.StepTracker]]).
  */
final class FirstPasses(
    task: TaskScan,
    access: ParquetReaderAccess,
    file: PartitionedFile,
    dataColumns: IndexedSeq[(Int, ScanColumn)],
    fileColumns: IndexedSeq[FileColumn],
    bytes: ColumnBytes
) extends Closeable {
  import FirstPasses._
  import ScanCounter._

  private val spec = task.spec
  private val report = task.report

  // A column that the file lacks is a constant: it needs no pass, and Parquet cannot read a row group without columns.
  private val filterFields = dataColumns.indices.filter(fileColumns(_).isStored).map(dataColumns(_)._2.ordinal).distinct
  private val topK: Option[TopKSpec] =
    dataColumns.headOption
      .filter { case (i, c) => i == TaskScan.OrderingColumn && !c.either && filterFields.contains(c.ordinal) }
      .flatMap(_._2.ref.topK)
      .filterNot(_.keepsOrder)
  private val (cheap, costly) =
    spec.predicates
      .filter(p => ordinalsOf(p).forall(bytes.isStored) && mayLeaveOutRows(p))
      .partition(p => ordinalsOf(p).forall(filterFields.contains))

  /** Spark adds to a query that the keys of its joins are not NULL. Where few are, a pass over the columns of the other keys
    * finds next to nothing, and decodes them twice: in TPC-DS q70 it took 31 of the 53 ms of all first passes.
    */
  private def mayLeaveOutRows(p: Expression): Boolean = p match {
    case IsNotNull(b: BoundReference) =>
      bytes.nullShare(b.ordinal).fold(!spec.isForJoinsOnly)(_ > 1 - spec.giveUpSelectivity)
    case _ => true
  }

  private val tuples = new TuplePasses(task, file, filterFields.contains)

  /** Tests what is read without a first pass by all filters that are for the reader to test. */
  lazy val byAll: BatchSelector = testing(_ => true)

  /** The same without those of joins of the same stage. */
  lazy val byOthers: BatchSelector = testing(!spec.forOwnStage(_))

  private def testing(isWanted: Int => Boolean): BatchSelector = {
    // Where rows must be the same in every attempt, the others are for the selector over all that the scan puts out.
    def isUsed(filter: Int) = isWanted(filter) && (!task.isFixed || spec.forOwnStage(filter))
    val columns = dataColumns.indices.filter(fileColumns(_).isStored).map(dataColumns)
    new BatchSelector(
      () => task.filters(),
      columns.collect { case (i, c) if !c.either && isUsed(i) => (i, c.ordinal) },
      () => tuples.ofRowGroup(i => isUsed(i) && task.rowTests.isTaken(i)),
      task.rowTests,
      report
    )
  }

  private val counts: RowSelector.Record = (filter, before, after, _) =>
    task.rowTests.inFirstPass(filter, before, after)

  private lazy val overFilters =
    new FirstPass(access, access.requestedSchema, filterFields, cheap, file.start, file.length, counts)
  private lazy val overPredicates = asking(costly)
  // Where no pass over the filters' columns came before.
  private lazy val overAllPredicates = asking(cheap ++ costly)
  private def asking(asked: Seq[Expression]): FirstPass = {
    val fields = (filterFields ++ costly.flatMap(ordinalsOf)).distinct
    new FirstPass(access, access.requestedSchema, fields, asked, file.start, file.length, counts)
  }
  private var opened = List.empty[FirstPass]
  private def open(p: FirstPass): FirstPass = { if (!opened.contains(p)) opened ::= p; p }

  /** @param filters
    *   by filtered column of the files
    * @param either
    *   the filters of which a row has to pass only one; those are All in `filters`
    * @param pages
    *   rows that static predicates and filters leave by the page index, None for all
    */
  def decide(
      group: RowGroup,
      filters: IndexedSeq[ValueFilter],
      either: Option[RowPass],
      pages: Option[RowSet],
      learner: StatisticsLearner
  ): Decision = {
    def plainly: Decision = (pages, group.done) match {
      case (None, None) => Decision.ReadAll
      case (p, done) =>
        val rest = done.map(_.complement(group.rowCount))
        val rows = (p ++ rest).reduce(_ intersect _)
        if (rows.isEmpty) Decision.Prune(ByRows) else Decision.Read(rows)
    }
    val ofRows: Seq[RowPass] = either.toSeq ++ tuples.ofRowGroup()
    val bound = filters.exists(f => f != ValueFilter.All) || ofRows.nonEmpty
    val selects = bound || spec.predicates.nonEmpty
    val splittable =
      topK.exists(k => k.limit < group.leftCount / MinRowsPerBest && (!k.distinct || mayHaveKeys(group, k))) &&
        bytes.canSkipRows(group.block) && group.done.isEmpty
    val anything = (filterFields.nonEmpty && (bound || splittable)) || costly.nonEmpty
    if (!spec.lateMaterialization || !anything) return plainly
    // Nothing but the query's own predicates would stop a row: without us Spark would not read their columns first either.
    // (A TopK gets its bound from the rows that pass them: they are worth a pass before there is one.)
    if (!bound && spec.isForJoinsOnly) return plainly
    if (!worthwhile(group)) return plainly
    // The second part of a row group is found as the first was: its rows are known one by one.
    if (group.done.isEmpty) {
      group.firstPass = task.firstPass()
      if (!group.firstPass.isTaken()) {
        group.isLate = Some(false)
        return plainly
      }
    }
    val candidates = pages.fold(group.rowCount)(_.count)
    val found = run(group, filters, ofRows, pages, splittable, learner)
    // A pass before the first bound of a TopK says nothing of the next one.
    def record(passed: Long, bytes: Double): Unit = if (selects || passed <= candidates * spec.giveUpSelectivity) {
      group.firstPass.leaves(bytes)
      if (group.firstPass.add(Tested(candidates, passed, Cost.none))) report.addReason(Disabled)
    }
    if (found.isEmpty) {
      record(candidates, 1)
      return plainly
    }
    val survivors = found.get
    def readLate(decision: Decision): Decision = {
      group.isLate = Some(true)
      if (group.done.isEmpty) report.add(LateMaterialized, 1)
      decision
    }
    val rows = group.done.fold(survivors.rows)(d => survivors.rows.intersect(d.complement(group.rowCount)))
    if (topK.exists(_.distinct) && survivors.complete && survivors.best.exists(!_.isFull)) task.hasFewKeys = true
    val passed = rows.count + group.done.fold(0L)(_.count)
    val share = passed.toDouble / math.max(candidates, 1)

    if (rows.isEmpty) {
      record(passed, 0)
      readLate(Decision.Prune(ByRows))
    } else
      survivors.best.filter(b =>
        !survivors.complete || (b.isFull && (topK.get.tiesFree || !b.allEqual) && rows.count > math
          .max(b.size * MinRowsPerBest, StepTracker.FewRows) && tightens(b, filters.head))
      ) match {
        case Some(best) =>
          val key = best.worstKey
          val spec = topK.get
          group.rest = Some(
            // Of groups the rest has more rows of the keys that are handed on, and these are not worse than the worst of them.
            if (key == null || spec.distinct) ColumnBounds.unknown
            else if (spec.ascending) ColumnBounds(key, null, !spec.nullsFirst, mayHaveValues = true)
            else ColumnBounds(null, key, !spec.nullsFirst, mayHaveValues = true)
          )
          val chosen = RowSet.of(best.rows)
          record(chosen.count, byteShare(group, pages, chosen))
          group.isFound = true
          readLate(Decision.ReadFirst(chosen))
        case None =>
          val touched = byteShare(group, pages, rows)
          record(passed, touched)
          if (!bytes.canSkipRows(group.block)) readLate(Decision.ReadAll)
          else if (share > ReadAllShare) readLate(plainly)
          // Spark's reader spent 0.1 s of 7 on ranges of one row of a TopK by a key with two values.
          else if (!task.comparesTimes && touched > ReadAllShare) plainly
          else {
            group.isFound = true
            readLate(Decision.Read(rows))
          }
      }
  }

  /** Whether handing on these rows first sets a bound that is better than the one in force. */
  private def tightens(best: FirstRows, inForce: ValueFilter): Boolean = {
    val k = topK.get
    !inForce.implies(k.atLeastAsGoodAs(best.worstKey, inclusive = !k.tiesFree))
  }

  /** Whether a row group may have so many different keys that a TopK of groups gets its bound from it. */
  private def mayHaveKeys(group: RowGroup, k: TopKSpec): Boolean =
    !task.hasFewKeys && bytes.mayHaveDistinct(group.block, filterFields.head, k.limit.toLong)

  /** @return
    *   None if the filters let most of the first rows pass
    */
  private def run(
      group: RowGroup,
      filters: IndexedSeq[ValueFilter],
      ofRows: Seq[RowPass],
      pages: Option[RowSet],
      splittable: Boolean,
      learner: StatisticsLearner
  ): Option[Survivors] = {
    val byField = dataColumns.indices.filter(fileColumns(_).isStored).map { i =>
      RowFilter(dataColumns(i)._1, dataColumns(i)._2.ordinal, filters(i))
    }
    val best = if (splittable) topK.map(FirstRows(_)) else None
    val indexed = bytes.hasPageIndex(group.block)

    def pass(
        p: FirstPass,
        rows: Option[RowSet],
        best: Option[FirstRows],
        see: FirstPass.See,
        giveUpAbove: Double,
        giveUpAboveAll: Double
    ): Option[RowSet] = {
      // The main reader's page indexes serve to count what the narrow reader is about to read.
      bytes.count(report, access.fileReader, group.index, Some(p.fields), rows)
      val offer = best.map(b => b.offer _).orNull
      val passing = open(p).run(
        group.index,
        group.rowCount,
        rows,
        indexed,
        byField,
        ofRows,
        filterFields.headOption.getOrElse(-1),
        offer,
        see,
        giveUpAbove,
        giveUpAboveAll
      )
      ofRows.foreach(_.judge())
      passing
    }
    val second = costly.nonEmpty
    val bound = byField.exists(_.filter != ValueFilter.All) || ofRows.nonEmpty
    val windows = if (second && best.isDefined) KeyWindows.of(topK.get, group.rowCount) else None
    // Whether the pass over predicates is the first one.
    val isFirst = filterFields.isEmpty || (second && !bound && windows.isEmpty)
    // Spark's own filter asks the predicates again. Where nearly all of the first rows pass, that is all they are asked for,
    // unless they are to find the best rows.
    def ofPredicates(rows: Option[RowSet]): RowSet =
      pass(
        if (isFirst) overAllPredicates else overPredicates,
        rows,
        best,
        see = null,
        1,
        giveUpAboveAll = if (best.isEmpty) ReadAllShare else 1
      )
        .getOrElse {
          report.addReason("most of a row group's first rows pass the query's predicates: they are asked once")
          rows.getOrElse(RowSet.all(group.rowCount))
        }

    var rows = pages
    if (!isFirst) {
      val watch = learner.watch(group, rows)
      // Without us Spark would not read the columns of the query's own predicates first: it takes a filter that selects. Only
      // a whole pass finds bounds, and these are worth more than the pass.
      val giveUpAbove = if (spec.isForJoinsOnly && watch == null) spec.giveUpSelectivity else 1.0
      val see: FirstPass.See =
        if (windows.isEmpty) watch
        else { (column, n, numbers) =>
          if (watch != null) watch(column, n, numbers)
          windows.get.see(column(filterFields.head), n, numbers)
        }
      val found = pass(overFilters, rows, if (second) None else best, see, giveUpAbove, giveUpAboveAll = 1) match {
        case Some(f) => f
        case None => return None
      }
      learner.watched(group)
      if (second && found.count > rows.fold(group.rowCount)(_.count) * giveUpAbove)
        return Some(Survivors(found, best, complete = true))
      rows = if (second && !found.isEmpty && !bytes.canSkipRows(group.block)) None else Some(found)
    }
    if (!second || rows.exists(_.isEmpty)) Some(Survivors(rows.get, best, complete = true))
    else if (windows.isEmpty) Some(Survivors(ofPredicates(rows), best, complete = true))
    else {
      // Best windows first, until none is left that could hold a better row.
      val heap = best.get
      val gathered = windows.get
      val parts = new gathered.Parts(rows.getOrElse(RowSet.all(group.rowCount)), readsWhole = !indexed)
      var found = RowSet.all(0)
      var complete = true
      var part = parts.next(0)
      while (complete && part.isDefined)
        if (heap.isFull && part.get.isNotBetterThan(heap.worstKey)) complete = false
        else {
          if (!part.get.rows.isEmpty) found = found.union(ofPredicates(Some(part.get.rows)))
          part = parts.next(found.count)
        }
      Some(Survivors(found, best, complete))
    }
  }

  /** Of what is read without a first pass, the share that is read with these rows. */
  private def byteShare(group: RowGroup, pages: Option[RowSet], rows: RowSet): Double =
    if (!bytes.hasPageIndex(group.block)) rows.windowShare(KeyWindows.Rows, group.rowCount)
    else {
      def read(rows: Option[RowSet]) = bytes.read(access.fileReader, group.index, None, rows)
      read(Some(rows)).toDouble / math.max(read(pages), 1L)
    }

  /** Whether enough is left to read after the first passes, or enough to do with each row that they leave out: to shuffle it, to
    * bring it to an aggregate that needs hardly any, or what a user who asks for pruning knows of.
    */
  private def worthwhile(group: RowGroup): Boolean = {
    val requested = bytes.requested(group.block)
    val first = (filterFields ++ costly.flatMap(ordinalsOf)).distinct.map(bytes.of(group.block, _)).sum
    spec.crossesExchange || spec.isForAggregate || spec.followsUpdates || requested - first >= first * StepTracker.HalfOfBytes
  }

  override def close(): Unit = opened.foreach { p =>
    if (p.failures > 0)
      report.addReason(
        s"a predicate failed on rows in the first pass (${p.lastFailure.getClass.getSimpleName})",
        p.failures
      )
    p.close()
  }
}

private[scan] object FirstPasses {

  /** The reason in reports. */
  val Disabled = "late materialization gave up"

  /** @param complete
    *   whether all rows that pass are among `rows`; else `best` is full and the others are not better than its worst
    */
  final case class Survivors(rows: RowSet, best: Option[FirstRows], complete: Boolean)

  /** Best rows go first only where there are at least this many times as many rows. */
  val MinRowsPerBest = 8L

  /** Above this share of rows or bytes a plain read costs less than skipping. */
  val ReadAllShare = 0.9

  def ordinalsOf(p: Expression): Seq[Int] = p.collect { case b: BoundReference => b.ordinal }.distinct
}
