package org.dynamicfilters.scan

import java.util.concurrent.ConcurrentLinkedQueue

import scala.collection.mutable

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.dynamicfilters.SparkAccess
import org.apache.spark.util.SerializableConfiguration
import org.dynamicfilters.exchange.{ExecutorExchange, TaskSnapshots}
import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}
import org.dynamicfilters.state._

/** One filtered scan in one task: the filters as the task sees them, what it counts, and what it learned of files.
  *
  * Nothing of an execution is in the closure that reads files (Spark keeps that closure between executions of a plan); it
  * finds this object through the running task.
  *
  * @param runs
  *   by filter of the scan, see `TopKRef.nextRun`
  * @param ready
  *   the filters that were complete when the scan was started
  * @param snapshots
  *   which filters each partition is read with, if that has to be the same in every attempt
  * @param finish
  *   gets the report when the task ends
  */
final class TaskScan(
    val spec: ScanSpec,
    runs: IndexedSeq[Long],
    ready: ReadyFilters,
    snapshots: Option[ScanSnapshots],
    context: TaskContext,
    finish: ScanReport => Unit
) extends ScanInTask {
  val report = new ScanReport(
    TaskFilters.executionId(context).getOrElse(-1L),
    SparkEnv.get.executorId,
    ReportRoom.of(SparkAccess.maxResultSize(SparkEnv.get.conf), context.numPartitions())
  )

  // Filters that hold for the partition that is being read, where its rows must be the same in every attempt.
  private val fixed = snapshots
    .filter(_ => TaskSnapshots.areNeeded)
    .map(
      new FixedFilters(
        spec.filterRefs,
        spec.columns.map(c => Some(c.domain)) ++ spec.tuples.map(_ => None),
        ready,
        _,
        spec.filterRefs.indices.map(i => shared(s"worth-${spec.scanId}-$i")(new Worth(spec.giveUpSelectivity))),
        () => costsOfPartition(),
        context
      )
    )
  def isFixed: Boolean = fixed.isDefined

  // A TopK takes the first of equal rows, so the rows' order must not depend on measured times either.
  private def isOrderFixed = isFixed && spec.columns.exists(_.ref.topK.isDefined)
  private val giveUp = if (isOrderFixed) 1.0 else spec.giveUpSelectivity

  private lazy val ways = if (isOrderFixed) new WaysMeasured else WaysMeasured.of(spec)
  val advisor: LateMaterializationAdvisor =
    shared(s"advisor-${spec.scanId}")(
      new LateMaterializationAdvisor(spec.giveUpSelectivity, ways, byTime = !isOrderFixed)
    )

  /** Who decides whether rows are tested that a join of the same stage would drop. */
  val testAdvisor = new TestAdvisor(giveUp >= 1, ways)
  private val splits = mutable.HashMap.empty[(String, Long), LearnedColumns]
  private val current = new CurrentFilters(spec.columns.size + spec.tuples.size, runs, ready, context)

  /** The scan goes on with this partition of its RDD.
    *
    * @param inBatches
    *   whether what it puts out are batches; rows are not tested by tuples
    */
  def reads(partition: Int, inBatches: Boolean): Unit = {
    fixed.foreach(_.reads(partition))
    hasFewKeys = false
    testsTuples = inBatches
    file = -1
    costsSince = System.nanoTime()
    if (isFixed) news = newest()
  }
  private var testsTuples = true

  /** Whether a row group of the partition had fewer different keys than a TopK of groups wants. */
  var hasFewKeys = false
  private var file = -1

  /** The scan goes on with the partition's next file. */
  def reachesFile(): Unit = {
    file += 1
    reaches(0)
  }

  /** The scan goes on with a row group of that file.
    *
    * @param offset
    *   its first byte
    */
  def reachesRowGroup(offset: Long): Unit = reaches(offset)

  /** The scan reads that file without regard to its row groups. */
  def readsWholeFile(): Unit = fixed.foreach(_.readsWhole())

  private def reaches(offset: Long): Unit =
    if (!isOrderFixed) fixed.foreach(_.reaches(ReadPlace(file, offset), hasNews()))

  // What this process knows of filters, to ask the driver only where there may be something new.
  private var news = IndexedSeq.empty[ValueFilter]

  private def newest(): IndexedSeq[ValueFilter] = spec.filterRefs.zipWithIndex.map {
    // One that it has stays: after the execution's end it would be decoded anew each time, and never be the same.
    case (_: JoinRef, at) if at < news.size && news(at) != null => news(at)
    case (j: JoinRef, at) => ready.find(context, j, at).orNull
    case (u: UserRef, at) if u.follows => users(at)(u, context)
    case _ => null
  }

  private def hasNews(): Boolean = {
    val now = newest()
    val changed = now.indices.exists(i => now(i) ne news(i))
    news = now
    changed
  }

  /** Rises whenever other filters hold. */
  def filtersVersion: Int = fixed.fold(0)(_.version)

  /** Filters by column of the spec, as of now: of those by which rows are tested. */
  def filters(): IndexedSeq[ValueFilter] =
    spec.columns.indices.map(i => if (fixed.forall(_.isTested(i))) filter(i) else ValueFilter.All)

  /** The same, and those by which only files and row groups are left out. */
  def allFilters(): IndexedSeq[ValueFilter] = spec.columns.indices.map(filter)

  private def filter(column: Int): ValueFilter = {
    val c = spec.columns(column)
    c.ref match {
      case _: JoinRef | _: UserRef if isFixed => fixed.get(column)
      case u: UserRef => users(column)(u, context)
      case other => current(column, other, c.domain).getOrElse(ValueFilter.All)
    }
  }

  private lazy val users = spec.columns.map(c => new UserColumn(c.domain))

  /** Filters of [[org.dynamicfilters.filter.TupleHash]]es by tuple of the spec, as of now. */
  def tuples(): IndexedSeq[ValueFilter] = spec.tuples.indices.map { i =>
    fixed match {
      case Some(f) =>
        val at = spec.columns.size + i
        if ((testsTuples && f.isTested(at)) || f(at) == ValueFilter.Nothing) f(at) else ValueFilter.All
      case None => current.join(spec.columns.size + i, spec.tuples(i).ref)(identity).getOrElse(ValueFilter.All)
    }
  }

  /** What row groups say of each filter of tuples, shared by the execution's tasks in this process. */
  val tupleAdvisors: IndexedSeq[StepAdvisor] =
    spec.tuples.indices.map(i => shared(s"tuples-${spec.scanId}-$i")(new StepAdvisor(giveUp)))

  /** Who judges filters of tuples where every row has to be tested by them. */
  lazy val tupleJudges: IndexedSeq[StepJudge] =
    spec.tuples.indices.map(i =>
      new Recording((rows, passed) => fixed.foreach(_.saw(spec.columns.size + i, rows, passed)))
    )

  /** What batches say of looking at their rows one by one. */
  lazy val batchAdvisor: StepAdvisor = shared(s"batches-${spec.scanId}")(new StepAdvisor(giveUp))

  /** Who judges that where every batch has to be tested. */
  lazy val batchJudge: StepJudge = new Recording(sawRows(_, _, !spec.forOwnStage(_)))

  /** What the scan's rows took in the tasks of this process. */
  val times: ScanTimes = shared(s"times-${spec.scanId}")(new ScanTimes)

  /** What tests of rows that were read cost. */
  val testCosts = new TestCosts(spec.filterRefs.size)
  private var costsSince = 0L
  private lazy val budgets = spec.filterRefs.indices.map(i => shared(s"budget-${spec.scanId}-$i")(new Budget))
  private lazy val withinBudget = Array.fill(spec.filterRefs.size)(true)

  private def costsOfPartition(): IndexedSeq[Option[Cost]] = {
    val now = System.nanoTime()
    val costs = testCosts.take(times.perRowAbove, now - costsSince)
    costsSince = now
    costs
  }

  /** A row group has gone all its way: what of it was of use, and what is within its budget in the next one. */
  def tookRowGroup(rows: Long, nanos: Long): Unit = {
    times.took(rows, nanos)
    (dictionaryAdvisors ++ bloomAdvisors).foreach(_.cost(Cost(0, 0, nanos)))
    if (!isFixed && giveUp < 1)
      testCosts.take(times.perRowAbove, nanos).zip(spec.filterRefs).zipWithIndex.foreach { case ((cost, ref), i) =>
        budgets(i).add(cost.getOrElse(Cost(0, 0, nanos)))
        val isOver = budgets(i).isOver
        if (isOver && withinBudget(i)) report.addReason(TaskScan.overBudget(ref))
        withinBudget(i) = !isOver
      }
  }

  /** Whether rows that were read are tested by the filter, by its place among the scan's. */
  def isWithinBudget(at: Int): Boolean = isFixed || withinBudget(at)

  /** As [[filters]], for rows that were read. */
  def filtersWithinBudget(): IndexedSeq[ValueFilter] = {
    val all = filters()
    if (isFixed || withinBudget.forall(identity)) all
    else all.indices.map(i => if (withinBudget(i)) all(i) else ValueFilter.All)
  }

  /** How many of so many rows passed the filters of these columns. */
  def sawRows(rows: Long, passed: Long, of: Int => Boolean = _ => true): Unit =
    fixed.foreach(f => spec.columns.indices.foreach(i => if (of(i) && f.isTested(i)) f.saw(i, rows, passed)))

  /** Takes every step: what is given up is said by the snapshot. */
  private final class Recording(record: (Long, Long) => Unit) extends StepJudge {
    override def isWorthIt(): Boolean = true
    override def judge(before: Long, after: Long): Boolean = { record(before, after); false }
  }

  /** What row groups say of looking into dictionaries and bloom filters, by column of the spec. */
  val dictionaryAdvisors: IndexedSeq[StepAdvisor] = lookUpAdvisors("dictionary")
  val bloomAdvisors: IndexedSeq[StepAdvisor] = lookUpAdvisors("bloom")

  private def lookUpAdvisors(step: String): IndexedSeq[StepAdvisor] = spec.columns.indices.map { i =>
    shared(s"$step-${spec.scanId}-$i")(new StepAdvisor(giveUp, TaskScan.LookUpsToGiveUp))
  }

  /** What the execution's tasks in this process share; the task's own where it has no execution. */
  private def shared[A <: AnyRef](key: String)(make: => A): A =
    if (isOrderFixed) make
    else TaskFilters.executionId(context).flatMap(Executions.instance.attach(_, key)(make)).getOrElse(make)

  /** What the driver knows of the task's splits, of files as they were listed.
    *
    * @param conf
    *   to ask the file system for a file
    */
  def know(file: PartitionedFile, learned: LearnedColumns, conf: Broadcast[SerializableConfiguration]): Unit = {
    splits((file.urlEncodedPath, file.start)) = learned
    hadoopConf = conf
  }
  private var hadoopConf: Broadcast[SerializableConfiguration] = _
  private lazy val checks = shared("files")(new FileChecks)

  /** What the table says of a file, which never changes.
    *
    * @param bounds
    *   by column of the spec
    */
  def believe(file: PartitionedFile, bounds: Array[ColumnBounds]): Unit = fromTable(file.urlEncodedPath) = bounds
  private val fromTable = mutable.HashMap.empty[String, Array[ColumnBounds]]

  /** The file is another one than was listed.
    *
    * @return
    *   whether anything was known of the split
    */
  def forget(file: PartitionedFile): Boolean = splits.remove((file.urlEncodedPath, file.start)).isDefined

  /** What is known of a column of the spec in the row groups of a split. */
  def known(file: PartitionedFile, column: Int): Option[Array[LearnedRowGroup]] =
    splits.get((file.urlEncodedPath, file.start)).flatMap(_.of(column))

  /** What is known of whatever column in the row groups of a split: enough to count them. */
  def known(file: PartitionedFile): Option[Array[LearnedRowGroup]] =
    spec.columns.indices.iterator.flatMap(known(file, _)).nextOption()

  /** Bytes that the scan would read of a split, where they are known. */
  def knownBytes(file: PartitionedFile): Option[Long] =
    splits.get((file.urlEncodedPath, file.start)).flatMap(_.bytes)

  /** Calls `f` before the report is taken. */
  def beforeReport(f: () => Unit): Unit = counting.add(f)
  private val counting = new ConcurrentLinkedQueue[() => Unit]

  /** The task has ended. */
  override def close(): Unit = {
    counting.forEach(_())
    fixed.foreach { f =>
      f.finish()
      if (f.gaveUp) report.addReason(BatchSelector.GivenUp)
    }
    report.tested = testCosts.counts
    finish(report)
  }

  /** Rows are left out, or not reached, that no filter of a single column was asked about. */
  def overlookAll(): Unit = spec.columns.indices.foreach(report.overlook)

  /** Whether a filter excludes the split before its file is opened: by partition values, by what the table's format says of the
    * file, or by learned statistics if the file is still the one that they were learned of.
    */
  def excludes(file: PartitionedFile): Boolean = {
    val now = allFilters()
    def isExcluding(i: Int, bounds: Int => ColumnBounds) = !now(i).couldPass(bounds(i))
    def by(bounds: Int => ColumnBounds): Boolean =
      spec.excludes(i => isExcluding(i, bounds)) && {
        // By one filter; the others were not asked.
        spec.columns.indices.foreach { i =>
          if (isExcluding(i, bounds)) report.judge(i, isDecisive = true)
          else if (now(i) == ValueFilter.All || !now(i).allPass(bounds(i).ofValues)) report.overlook(i)
        }
        true
      }
    def certain(i: Int) =
      if (spec.columns(i).isPartitionColumn) partitionBounds(file, i)
      else fromTable.get(file.urlEncodedPath).fold(ColumnBounds.unknown)(_(i))
    // Whether what was learned holds for this file is found out anew by every attempt, maybe with another outcome. Where rows
    // are not tested, that would show.
    def learned(i: Int) =
      if (fixed.exists(!_.isTested(i))) certain(i)
      else known(file, i).map(FileStatistics.boundsOf(_, spec.columns(i).domain)).getOrElse(certain(i))
    (tuples().contains(ValueFilter.Nothing) && { overlookAll(); true }) || by(certain) ||
    (splits.contains((file.urlEncodedPath, file.start)) && by(learned) && isAsListed(file))
  }

  /** Whether no row within these bounds, by column of the spec, passes the filters. The bounds are the same in every attempt. */
  def excludesRows(bounds: IndexedSeq[ColumnBounds]): Boolean = {
    val now = allFilters()
    tuples().contains(ValueFilter.Nothing) ||
    spec.excludes(i => !now(i).couldPass(bounds(i)))
  }

  private def isAsListed(file: PartitionedFile): Boolean = {
    val answer = checks.ask(file, hadoopConf.value.value)
    if (answer.contains(false) && forget(file)) report.addReason(FileChecks.Changed)
    answer.contains(true)
  }

  /** The one value that a partition column of the spec has in a file. */
  def partitionBounds(file: PartitionedFile, column: Int): ColumnBounds = {
    val c = spec.columns(column)
    ColumnBounds.exact(c.domain.fromRow(file.partitionValues, c.partitionOrdinal))
  }
}

object TaskScan {

  /** Files are ordered by the first filter of a scan, if that is a TopK's. */
  val OrderingColumn = 0

  private def overBudget(ref: FilterRef): String =
    s"testing rows by $ref cost more than it saved: rows that were read are not tested by it"

  /** Row groups in a row of which a dictionary or bloom filter excluded none before the next ones are read without a look. One
    * look costs as much as reading a small part of the column, one row group saved pays for many.
    */
  private val LookUpsToGiveUp = 4

  private final case class Key(scanId: Long)

  /** The scan as the running task sees it.
    *
    * @return
    *   None outside of a task, or where the task was not announced by [[begin]]
    */
  def current(scanId: Long): Option[TaskScan] =
    Option(TaskContext.get()).flatMap(RunningTasks.find).flatMap(_.find[TaskScan](Key(scanId)))

  /** Announces a scan to its task, once, however many of the scan's partitions the task reads. */
  def begin(scanId: Long, context: TaskContext)(make: => TaskScan): TaskScan = {
    ExecutorExchange.start()
    RunningTasks.of(context).attach(Key(scanId))(make).getOrElse(make)
  }
}
