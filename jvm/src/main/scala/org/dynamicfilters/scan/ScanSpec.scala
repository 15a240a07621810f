package org.dynamicfilters.scan

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.types.StructType
import org.dynamicfilters.exchange.FilterRef

/** One filter on one column of a scan.
  *
  * @param name
  *   the scan's own column name
  * @param ordinal
  *   position in the scan's required schema, -1 for a partition column
  * @param partitionOrdinal
  *   position in the partition schema, -1 for a column of the files
  */
final case class ScanColumn(ref: FilterRef, name: String, ordinal: Int, partitionOrdinal: Int) {
  def isPartitionColumn: Boolean = partitionOrdinal >= 0

  def describe: String = ref.describe(name)
}

/** What the planner knows of a filtered scan; the same for every execution of the plan.
  *
  * Compared by `marker` only, like [[FilterRef]].
  *
  * @param scanId
  *   unique in the application
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
    val marker: String,
    val requiredSchema: StructType,
    val columns: IndexedSeq[ScanColumn],
    val predicates: Seq[Expression],
    val decoding: String,
    val lateMaterialization: Boolean,
    val giveUpSelectivity: Double
) extends Serializable {

  /** The scan's record on the driver, null before it has started and on executors. */
  @transient @volatile var driverRun: AnyRef = _

  /** Key of a column's learned statistics, beside the file. The field's metadata belongs to it: a field id decides which
    * column of the file is meant, and a default what a file without the column holds.
    */
  def statisticsKey(c: ScanColumn): String =
    s"${if (c.ordinal >= 0) requiredSchema.fields(c.ordinal).metadata.json else ""}|${c.name}|" +
      s"${c.ref.spec.domain.dataType.sql}|$decoding"

  override def equals(other: Any): Boolean = other match {
    case that: ScanSpec => that.marker == marker
    case _ => false
  }
  override def hashCode: Int = marker.hashCode
  override def toString: String = ""
}

object ScanSpec {
  private val ids = new AtomicLong
  def nextId(): Long = ids.incrementAndGet()
}
