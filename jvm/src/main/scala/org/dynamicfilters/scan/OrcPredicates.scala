package org.dynamicfilters.scan

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{End, KeyDomain, LongSet, ObjectValues, ValueFilter}
import org.dynamicfilters.state.{JoinRef, UserRef}

/** Filters as predicates for Spark's ORC reader, which leaves out stripes and row groups by its own statistics.
  *
  * They may let pass more than the filter: what goes on above an exchange is decided by the test of rows.
  */
object OrcPredicates {

  /** More go to the reader as their range. */
  private val MostValues = 200L

  /** Whether the reader of a format makes use of predicates. */
  def isTold(format: FileFormat, hadoopConf: Configuration): Boolean =
    format.getClass == classOf[OrcFileFormat] && SQLConf.get.orcFilterPushDown &&
      // Then names in predicates may be those of other columns of the file.
      !hadoopConf.getBoolean("orc.force.positional.evolution", false)

  /** Whether the reader can be told of filters on a column: of a type whose values are the same in file, statistics and row. */
  def takes(field: StructField): Boolean =
    !field.metadata.contains(CharOrVarchar) && field.name.matches("[A-Za-z0-9_]+") && (field.dataType match {
      // Not strings: ORC replaces what is no UTF-8 in its bounds.
      case ByteType | ShortType | IntegerType | LongType => true
      case _ => false
    })

  // Of CHAR columns the reader's values may be padded.
  private val CharOrVarchar = "__CHAR_VARCHAR_TYPE_STRING"

  /** Of the filters that are complete now, on the driver. */
  def complete(spec: ScanSpec): Seq[Filter] = for {
    c <- spec.columns
    if c.ordinal >= 0 && !c.either && takes(spec.requiredSchema.fields(c.ordinal))
    filter <- complete(c).toSeq
    predicate <- of(c.name, filter)
  } yield predicate

  private def complete(c: ScanColumn): Option[ValueFilter] = c.ref match {
    case j: JoinRef => j.state.current.map(_.convert(c.domain))
    case u: UserRef => Some(u.generation.filterFor(c.domain))
    case _ => None
  }

  private[scan] def of(column: String, filter: ValueFilter): Seq[Filter] = filter match {
    case ValueFilter.NullsOnly(_) => Seq(IsNull(column))
    case r: ValueFilter.Range if !r.nulls => range(column, r)
    case ValueFilter.Members(r, keys) if !r.nulls =>
      val values: Option[Seq[AnyRef]] = keys match {
        case l: LongSet if l.size <= MostValues => Some(l.toArray.toSeq.map(Long.box))
        case o: ObjectValues if o.size <= MostValues => Some(o.sorted.toSeq)
        case _ => None
      }
      values.map(_.filter(filter.passes)) match {
        case Some(vs) if vs.nonEmpty && vs.forall(KeyDomain.isText) => Seq(In(column, vs.map(literal(_, r)).toArray))
        case _ => range(column, r)
      }
    case ValueFilter.Both(left, right) => of(column, left) ++ of(column, right)
    case _ => Nil
  }

  private def range(column: String, r: ValueFilter.Range): Seq[Filter] = {
    // The ends themselves may pass: that is simpler, and only wider.
    def bound(end: Option[End], compared: (String, Any) => Filter) =
      end.filter(e => KeyDomain.isText(e.key)).map(e => compared(column, literal(e.key, r))).toSeq
    bound(r.lower, GreaterThanOrEqual(_, _)) ++ bound(r.upper, LessThanOrEqual(_, _))
  }

  private def literal(key: AnyRef, r: ValueFilter.Range): Any = r.domain.toInternal(key) match {
    case s: UTF8String => s.toString
    case other => other
  }
}
