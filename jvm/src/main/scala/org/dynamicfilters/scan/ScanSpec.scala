package org.dynamicfilters.scan

import java.util.concurrent.atomic.AtomicLong

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.expressions.{Expression, IsNotNull}
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType
import org.dynamicfilters.filter.{KeyDomain, ValueFilter}
import org.dynamicfilters.state.{FilterRef, JoinRef, Producer, SubqueryRef, TopKSpec, UserRef}
import org.dynamicfilters.user.Generation

/** One filter on one column of a scan.
  *
  * @param key the filter's key, if it is computed from the column
  * @param ordinal position in the scan's required schema, -1 for a partition column
  * @param partitionOrdinal position in the partition schema, -1 for a column of the files
  * @param place where the scan is, relative to the filter's producer
  * @param either whether the filter is one of a disjunction: a row needs to pass only one of the scan's filters with
  *   this flag. They have one producer, for example an aggregate with min and max
  * @param stored the table format's metadata on how files store the column, if that may be under another name
  */
final case class ScanColumn(
    ref: FilterRef,
    domain: KeyDomain,
    name: String,
    ordinal: Int,
    partitionOrdinal: Int,
    place: ScanPlace,
    either: Boolean = false,
    stored: String = "",
    key: Option[DerivedKey] = None
) extends FilteredColumn {
  override def converted(filter: ValueFilter): ValueFilter = key.fold(super.converted(filter))(_.inverse(filter))
  override def converted(generation: Generation): ValueFilter =
    key.fold(super.converted(generation))(_.inverse(generation.filter))

  /** The field, if the filter is for one of a struct column. */
  def field: Option[NestedField] = key.flatMap(_.field)

  def isPartitionColumn: Boolean = partitionOrdinal >= 0

  /** Whether a user may tighten the filter while the scan runs. */
  def followsUpdates: Boolean = ref match {
    case u: UserRef => u.follows
    case _ => false
  }

  /** Whether the filter comes from a join in the same stage. The join drops the same rows, so the stage's output does
    * not depend on the filter.
    */
  def isForOwnStage: Boolean = ref.producer == Producer.join && !place.crossesExchange

  /** The TopK of the filter, with the order of the column's values in place of the key's. */
  def topK: Option[TopKSpec] =
    ref.topK.map(k => key.fold(k)(computed => k.copy(domain = domain, ascending = k.ascending != computed.falls)))

  /** The filtered column or computed key in plans and reports. */
  def shownName: String = key.fold(name)(_.text)

  def describe: String = ref.describe(shownName)
}

/** The place of a scan relative to a filter's producer.
  *
  * @param crossesExchange whether an exchange lies between them (a dropped row is then not shuffled), or an operator
  *   such as an aggregate, whose output changes if rows are dropped. In both cases the scan's rows must be the same in
  *   every attempt
  * @param waits how long the scan's stage waits for the filter
  */
final case class ScanPlace(crossesExchange: Boolean, waits: Wait)

/** A filtered scan as planned: its filters, columns and settings. The same for every execution of the plan. Equal if
  * the same filters act on the same columns.
  *
  * @param columns the filters by column; a TopK's filter comes first
  * @param predicates the query's own deterministic predicates on columns of the files, in Spark's order, bound to the
  *   required schema
  * @param options the table's options that may change how stored values are decoded
  * @param lateMaterialization whether filter columns may be read first
  * @param giveUpSelectivity largest share of passing rows at which a first pass pays
  */
final class ScanSpec(
    val scanId: Long,
    val requiredSchema: StructType,
    val columns: IndexedSeq[ScanColumn],
    val predicates: Seq[Expression],
    val options: String,
    val lateMaterialization: Boolean,
    val giveUpSelectivity: Double
) extends Serializable {

  /** The TopK of the first filter, if it is one. */
  def topK: Option[TopKSpec] = columns.headOption.filterNot(_.either).flatMap(_.topK)

  /** Positions of the columns of the disjunction, see [[ScanColumn.either]]. */
  val either: IndexedSeq[Int] = columns.indices.filter(columns(_).either)

  /** The orders, by column, in which files and row groups are read best first: that of the TopK, or those of `either`.
    */
  def orders: Seq[(Int, TopKSpec)] =
    if (topK.isDefined) Seq((TaskScan.OrderingColumn, topK.get)).filterNot(_._2.keepsOrder)
    else either.flatMap(i => columns(i).topK.map((i, _)))

  /** Whether the query's own predicates may exclude row groups. Those on values of subqueries are not among
    * `predicates`, but Spark's reader gets them.
    */
  val isNarrowed: Boolean =
    predicates.exists(!_.isInstanceOf[IsNotNull]) || columns.exists(_.ref.producer == Producer.subquery)

  /** On the driver, the setup of Spark's Parquet reader once the scan has started. */
  @transient @volatile var reader: Option[ReaderSetup] = None

  /** How stored values are decoded; known once the scan has a reader. */
  val decoding: Decoding = new Decoding

  /** Whether a dropped row saves a shuffle. */
  def crossesExchange: Boolean = columns.exists(_.place.crossesExchange)

  /** Whether a producer is a min or max aggregate, which needs hardly any row once there is a bound. */
  val isForAggregate: Boolean = columns.exists(_.ref.producer == Producer.aggregate)

  /** Whether rows are tested after any reader has read them: a dropped row is not shuffled. */
  def testsBatches: Boolean = crossesExchange || followsUpdates

  /** Whether our own reader tests rows after reading them. A join in the same stage drops the same rows, but at the
    * higher cost of generated code and a hash lookup for each row: TPC-DS q03 took 235 ms of executors' processor time
    * in stock Spark, 242 without these tests and 196 with them.
    */
  def testsRead: Boolean = testsBatches || forOwnStage.contains(true)

  /** Whether the output of the scan's stage depends on filters that change while the scan runs. It does not depend on
    * filters of a join in the same stage, which drops the same rows.
    */
  def outputDependsOnFilters: Boolean = testsBatches || columns.exists(_.ref.topK.isDefined)

  val isForJoinsOnly: Boolean = columns.forall(_.ref.producer == Producer.join)

  /** Whether a retry may drop more rows, because a user may tighten a filter meanwhile. */
  def followsUpdates: Boolean = columns.exists(_.followsUpdates)

  /** The same scan with other filters, under a new id. */
  def withColumns(columns: IndexedSeq[ScanColumn]): ScanSpec =
    new ScanSpec(
      ScanSpec.nextId(),
      requiredSchema,
      columns,
      predicates,
      options,
      lateMaterialization,
      giveUpSelectivity
    )

  private def filters: Seq[(FilterRef, Int, Int, Option[DerivedKey])] =
    columns.map(c => (c.ref, c.ordinal, c.partitionOrdinal, c.key))

  def filterIds: Seq[Long] = filterRefs.map(_.id)

  def filterRefs: IndexedSeq[FilterRef] = columns.map(_.ref)

  /** By column, whether its filter comes from a join in the same stage. */
  val forOwnStage: IndexedSeq[Boolean] = columns.map(_.isForOwnStage)

  /** The filters of joins, and the scan's place relative to them. */
  def joins: Seq[(JoinRef, ScanPlace)] =
    columns.map(c => (c.ref, c.place)).collect { case (j: JoinRef, place) => (j, place) }

  /** The filters of subqueries, and their columns, in the order of `SpecScan.values`. */
  def subqueries: Seq[(SubqueryRef, String)] =
    columns.map(c => (c.ref, c.shownName)).collect { case (s: SubqueryRef, c) => (s, c) }

  /** The filters, as plans show them. */
  def describe: String = {
    val (one, all) = columns.partition(_.either)
    (Seq(one.map(_.describe).mkString(" OR ")).filter(_.nonEmpty) ++ all.map(_.describe)).mkString(", ")
  }

  /** The scan's report on the driver; null before the scan has started, and on executors. */
  @transient @volatile var driverRun: ScanRun = _

  /** Key of a column's learned statistics, besides the file. Contains everything that changes how values are found and
    * decoded: the field's metadata (a field id selects the file's column, a default fills a missing one), the table's
    * column mapping, the path in a struct (its text may be that of another field: `st.a.b`), the type, the settings and
    * the options.
    */
  def statisticsKey(c: ScanColumn): String =
    s"${if (c.ordinal >= 0) notes(c) else ""}${c.stored}|${c.name}|${c.field.fold("")(_.path.mkString)}|" +
      s"${c.domain.dataType.sql}|${decoding.text};$options"

  private def notes(c: ScanColumn): String = {
    val column = requiredSchema.fields(c.ordinal)
    if (c.field.isEmpty) column.metadata.json else StructType(Seq(column)).json
  }

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

/** Arguments with which Spark makes a scan's Parquet reader.
  *
  * @param pushedDown the query's own predicates that the reader gets
  * @param conf configuration for opening files. Must not be changed: it has the requested columns, and tasks share it
  *   in local mode
  */
final case class ReaderSetup(pushedDown: Seq[Filter], conf: Configuration)

/** How long the stage of a scan waits for a join's filter.
  *
  * @param most longest wait in milliseconds, if the setting allows it
  * @param endsAtStart whether the wait ends when the build side's job was submitted
  */
sealed abstract class Wait(most: Long, val endsAtStart: Boolean = false) {

  /** @param longest limit by the setting, in milliseconds */
  final def millis(longest: Long): Long = math.min(longest, most)
}

object Wait {

  /** No wait: the filter is complete before the scan starts, or is used when it arrives. */
  case object No extends Wait(0)

  /** Until the build side's job was submitted, or so long that it must have been. Spark gives slots to older jobs
    * first, so the scan then gets only slots that the build side leaves idle, and uses the filter when it arrives.
    */
  case object Briefly extends Wait(100, endsAtStart = true)

  /** Until the filter is ready or will not come. */
  case object UntilReady extends Wait(Long.MaxValue)
}
