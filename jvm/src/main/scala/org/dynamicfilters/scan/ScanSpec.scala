package org.dynamicfilters.scan

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, IsNotNull}
import org.apache.spark.sql.types.StructType
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain, TuplePart, TupleText}
import org.dynamicfilters.state.{FilterRef, JoinRef, Producer, TopKSpec, UserRef}

/** One filter on one column of a scan.
  *
  * @param domain
  *   type of the column; may be a narrower integral type than the filter's
  * @param name
  *   the scan's own column name
  * @param ordinal
  *   position in the scan's required schema, -1 for a partition column
  * @param partitionOrdinal
  *   position in the partition schema, -1 for a column of the files
  * @param place
  *   where the scan stands to the filter's producer
  * @param either
  *   whether a row matters as soon as it passes one of the scan's filters that have this flag: they are of one producer, as
  *   the min and the max of an aggregate
  * @param stored
  *   what the table's format notes of where files hold the column, if that may be elsewhere than under its name
  */
final case class ScanColumn(
    ref: FilterRef,
    domain: KeyDomain,
    name: String,
    ordinal: Int,
    partitionOrdinal: Int,
    place: ScanPlace,
    either: Boolean = false,
    stored: String = ""
) {
  def isPartitionColumn: Boolean = partitionOrdinal >= 0

  /** Of a partition column, in a file with these partition values. */
  def partitionBounds(values: InternalRow): ColumnBounds = ColumnBounds.exact(domain.fromRow(values, partitionOrdinal))

  /** Whether it is tightened while the scan runs, by a user. */
  def followsUpdates: Boolean = ref match {
    case u: UserRef => u.follows
    case _ => false
  }

  /** Whether a join of the same stage drops the rows by itself: no row that leaves the stage tells whether they were tested. */
  def isForOwnStage: Boolean = ref.producer == Producer.join && !place.crossesExchange

  def describe: String = ref.describe(name)
}

/** The filter of tuples of columns of a scan, each of which is filtered by itself too.
  *
  * @param parts
  *   in the order in which the build side took its keys
  */
final case class ScanTuple(ref: JoinRef, parts: IndexedSeq[ScanTuplePart], place: ScanPlace) {

  /** As in [[ScanColumn]]. */
  def isForOwnStage: Boolean = !place.crossesExchange

  def describe: String = ref.describe(TupleText.columns(parts.map(_.name)))
}

/** One column of it; as in [[ScanColumn]]. */
final case class ScanTuplePart(part: TuplePart, name: String, ordinal: Int, partitionOrdinal: Int) {
  def isPartitionColumn: Boolean = partitionOrdinal >= 0
}

/** Where a scan stands to a filter's producer.
  *
  * @param crossesExchange
  *   an exchange lies between: each row that is dropped is not shuffled either. Or an operator whose other rows show which ones
  *   were dropped, as an aggregate: the rows have to be the same in every attempt, too
  * @param waits
  *   how long the scan's stage is held back for the filter
  */
final case class ScanPlace(crossesExchange: Boolean, waits: Wait)
object ScanPlace {

  /** In the same task as the producer. */
  val near: ScanPlace = ScanPlace(crossesExchange = false, Wait.No)
}

/** What the planner knows of a filtered scan; the same for every execution of the plan.
  *
  * Compared by which filters act on which columns.
  *
  * @param scanId
  *   unique in the application
  * @param columns
  *   a TopK's filter comes first
  * @param tuples
  *   of these columns; evaluated by rows only
  * @param predicates
  *   the query's own deterministic predicates on columns of the files, bound to the required schema, in Spark's order
  * @param options
  *   the table's options, as far as they may change how a stored value is decoded
  * @param lateMaterialization
  *   whether filter columns may be read first
  * @param giveUpSelectivity
  *   a first pass that lets more than this share of rows through does not pay
  */
final class ScanSpec(
    val scanId: Long,
    val requiredSchema: StructType,
    val columns: IndexedSeq[ScanColumn],
    val tuples: IndexedSeq[ScanTuple],
    val predicates: Seq[Expression],
    val options: String,
    val lateMaterialization: Boolean,
    val giveUpSelectivity: Double
) extends Serializable {

  /** Text that is equal for equal scans under equal filters, and seldom for others. */
  def marker: String =
    filters.map { case (ref, at) => s"${ref.marker}:${at.mkString(":")}" }.mkString("", ",", s"|${predicates.hashCode}")

  /** What the TopK looks for whose filter comes first, if there is one. */
  def topK: Option[TopKSpec] = columns.headOption.filterNot(_.either).flatMap(_.ref.topK)

  /** Positions of the columns of which a row has to pass only one. */
  val either: IndexedSeq[Int] = columns.indices.filter(columns(_).either)

  /** What is looked for in which columns: files and row groups are read best first by it. One, or those of `either`. */
  def orders: Seq[(Int, TopKSpec)] =
    if (topK.isDefined) Seq((TaskScan.OrderingColumn, topK.get)).filterNot(_._2.keepsOrder)
    else either.flatMap(i => columns(i).ref.topK.map((i, _)))

  /** Whether the query's own predicates may exclude row groups. */
  val isNarrowed: Boolean = predicates.exists(!_.isInstanceOf[IsNotNull])

  /** On the driver, what Spark made its Parquet reader with, once the scan has started. */
  @transient @volatile var reader: Option[ReaderSetup] = None

  /** How stored values are decoded, once the scan has a reader. */
  val decoding: Decoding = new Decoding

  /** Whether each row that is dropped spares a shuffle too. */
  def crossesExchange: Boolean = columns.exists(_.place.crossesExchange)

  /** Whether it is filtered for a min or max, which needs hardly any row once there is a bound. */
  val isForAggregate: Boolean = columns.exists(_.ref.producer == Producer.aggregate)

  /** Whether rows are tested after they were read, whoever reads them: dropped then, they are still not shuffled. */
  def testsBatches: Boolean = crossesExchange || followsUpdates

  /** Whether a reader that knows the filters tests rows after it read them. A join of the same stage drops the same rows, but
    * takes each by itself through generated code and its hash table: TPC-DS q03 took 235 ms of executors' processor time in
    * stock Spark, 242 without these tests and 196 with them.
    */
  def testsRead: Boolean = testsBatches || forOwnStage.contains(true)

  /** Whether filters that change while the scan runs show in the rows that its stage puts out: not those of a join in the same
    * stage, which drops the same rows itself.
    */
  def showsFilters: Boolean = testsBatches || columns.exists(_.ref.topK.isDefined)

  val isForJoinsOnly: Boolean = columns.forall(_.ref.producer == Producer.join)

  /** Whether rows may be missing in a retry that were there before: a user's filter was tightened meanwhile. */
  def followsUpdates: Boolean = columns.exists(_.followsUpdates)

  /** The same scan under other filters: another one to whoever looks for it by id. */
  def withColumns(columns: IndexedSeq[ScanColumn]): ScanSpec = changed(columns, tuples)
  def withTuples(tuples: IndexedSeq[ScanTuple]): ScanSpec = changed(columns, tuples)

  /** The same scan under the filter of the tuples of some of its columns too; this if it has that already. */
  def withTuple(ref: JoinRef, of: Seq[ScanColumn], place: ScanPlace): ScanSpec = {
    val parts = of.zip(ref.nullsMatch).map { case (c, nulls) =>
      ScanTuplePart(TuplePart(c.domain, nulls), c.name, c.ordinal, c.partitionOrdinal)
    }
    val tuple = ScanTuple(ref, parts.toIndexedSeq, place)
    if (tuples.exists(t => (t.ref eq ref) && t.parts == tuple.parts)) this else withTuples(tuples :+ tuple)
  }

  private def changed(columns: IndexedSeq[ScanColumn], tuples: IndexedSeq[ScanTuple]): ScanSpec =
    new ScanSpec(
      ScanSpec.nextId(),
      requiredSchema,
      columns,
      tuples,
      predicates,
      options,
      lateMaterialization,
      giveUpSelectivity
    )

  private def filters: Seq[(FilterRef, Seq[Int])] =
    columns.map(c => (c.ref, Seq(c.ordinal, c.partitionOrdinal))) ++
      tuples.map(t => (t.ref, t.parts.flatMap(p => Seq(p.ordinal, p.partitionOrdinal))))

  def filterIds: Seq[Long] = filters.map(_._1.id)

  /** By column, then by tuple. */
  def filterRefs: IndexedSeq[FilterRef] = columns.map(_.ref) ++ tuples.map(_.ref)

  /** Which of them are of joins of the scan's own stage. */
  val forOwnStage: IndexedSeq[Boolean] = columns.map(_.isForOwnStage) ++ tuples.map(_.isForOwnStage)

  /** The filters of joins, and where the scan stands to them. */
  def joins: Seq[(JoinRef, ScanPlace)] =
    columns.map(c => (c.ref, c.place)).collect { case (j: JoinRef, place) => (j, place) } ++
      tuples.map(t => (t.ref, t.place))

  /** As plans show it. */
  def describe: String = {
    val (one, all) = columns.partition(_.either)
    (Seq(one.map(_.describe).mkString(" OR ")).filter(_.nonEmpty) ++ all.map(_.describe) ++ tuples.map(_.describe))
      .mkString(", ")
  }

  /** The scan's record on the driver, null before it has started and on executors. */
  @transient @volatile var driverRun: ScanRun = _

  /** Key of a column's learned statistics, beside the file: those learned under one way to decode values are not used under
    * another. The field's metadata belongs to it: a field id decides which column of the file is meant, and a default what a
    * file without the column holds. So does the column mapping of a table: a name may mean another column in the next version.
    */
  def statisticsKey(c: ScanColumn): String =
    s"${if (c.ordinal >= 0) requiredSchema.fields(c.ordinal).metadata.json else ""}${c.stored}|${c.name}|" +
      s"${c.domain.dataType.sql}|${decoding.text};$options"

  override def equals(other: Any): Boolean = other match {
    case that: ScanSpec => that.filters == filters
    case _ => false
  }
  override def hashCode: Int = filters.hashCode
  override def toString: String = ""
}

object ScanSpec {
  private val ids = new AtomicLong
  def nextId(): Long = ids.incrementAndGet()
}
