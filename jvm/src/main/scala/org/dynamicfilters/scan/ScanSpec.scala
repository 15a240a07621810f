package org.dynamicfilters.scan

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.types.StructType
import org.dynamicfilters.exchange.{FilterRef, TopKSpec}
import org.dynamicfilters.filter.KeyDomain

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
  */
final case class ScanColumn(
    ref: FilterRef,
    domain: KeyDomain,
    name: String,
    ordinal: Int,
    partitionOrdinal: Int,
    place: ScanPlace
) {
  def isPartitionColumn: Boolean = partitionOrdinal >= 0

  def describe: String = ref.describe(name)
}

/** Where a scan stands to a filter's producer.
  *
  * @param crossesExchange
  *   an exchange lies between: each row that is dropped is not shuffled either
  * @param waits
  *   the scan's stage is held back for the filter
  */
final case class ScanPlace(crossesExchange: Boolean, waits: Boolean)
object ScanPlace {

  /** In the same task as the producer. */
  val near: ScanPlace = ScanPlace(crossesExchange = false, waits = false)
}

/** What the planner knows of a filtered scan; the same for every execution of the plan.
  *
  * Compared by which filters act on which columns.
  *
  * @param scanId
  *   unique in the application
  * @param columns
  *   a TopK's filter comes first
  * @param predicates
  *   the query's own deterministic predicates on columns of the files, bound to the required schema, in Spark's order
  * @param decoding
  *   fingerprint of the session settings that change how a stored value is decoded (time zone, calendar); statistics learned
  *   under one are not used under another
  * @param lateMaterialization
  *   whether filter columns may be read first
  * @param giveUpSelectivity
  *   a first pass that lets more than this share of rows through does not pay
  */
final class ScanSpec(
    val scanId: Long,
    val requiredSchema: StructType,
    val columns: IndexedSeq[ScanColumn],
    val predicates: Seq[Expression],
    val decoding: String,
    val lateMaterialization: Boolean,
    val giveUpSelectivity: Double
) extends Serializable {

  /** Text that is equal for equal specs, and seldom for others. */
  def marker: String = columns.map(c => s"${c.ref.marker}:${c.ordinal}:${c.partitionOrdinal}").mkString(",")

  /** What the TopK looks for whose filter comes first, if there is one. */
  def topK: Option[TopKSpec] = columns.headOption.flatMap(_.ref.topK)

  /** Whether each row that is dropped spares a shuffle too. */
  def crossesExchange: Boolean = columns.exists(_.place.crossesExchange)

  /** The same scan under other filters: another one to whoever looks for it by id. */
  def withColumns(columns: IndexedSeq[ScanColumn]): ScanSpec =
    new ScanSpec(
      ScanSpec.nextId(),
      requiredSchema,
      columns,
      predicates,
      decoding,
      lateMaterialization,
      giveUpSelectivity
    )

  private def filters: Seq[(FilterRef, Int, Int)] = columns.map(c => (c.ref, c.ordinal, c.partitionOrdinal))

  /** The scan's record on the driver, null before it has started and on executors. */
  @transient @volatile var driverRun: AnyRef = _

  /** Key of a column's learned statistics, beside the file. The field's metadata belongs to it: a field id decides which
    * column of the file is meant, and a default what a file without the column holds.
    */
  def statisticsKey(c: ScanColumn): String =
    s"${if (c.ordinal >= 0) requiredSchema.fields(c.ordinal).metadata.json else ""}|${c.name}|" +
      s"${c.domain.dataType.sql}|$decoding"

  override def equals(other: Any): Boolean = other match {
    case that: ScanSpec => that.filters == filters
    case _ => false
  }
  override def hashCode: Int = marker.hashCode
  override def toString: String = ""
}

object ScanSpec {
  private val ids = new AtomicLong
  def nextId(): Long = ids.incrementAndGet()
}
