package org.dynamicfilters.filter

import scala.util.control.NonFatal

import com.google.protobuf.CodedInputStream

import org.dynamicfilters.proto._

/** Encodes filters as bytes (proto/filters.proto), and decodes them.
  *
  * Decoding never throws. The driver and its executors run the same jar, so a message of another version is refused
  * whole, and the contents of one of this version are trusted.
  */
object FilterCodec {
  import KeyCodec._

  /** The version that is written, and the only one that is read. Raised with every change of the schema. */
  val version: Int = 4

  /** Levels of nested messages. `Both` takes two levels for each filter; protobuf's default limit is 100 levels. */
  private val MostNested = 1000

  /** Largest number of filters in nested `Both`s. */
  val mostParts: Int = 256

  def encode(f: ValueFilter): Array[Byte] = message(f).toByteArray

  /** Number of bytes that [[encode]] returns. */
  def sizeOf(f: ValueFilter): Long = message(f).getSerializedSize.toLong

  private def message(f: ValueFilter): FilterMessage =
    FilterMessage.newBuilder().setVersion(version).setFilter(form(f)).build()

  /** The filter, or why it cannot be decoded. */
  def decode(b: Array[Byte]): Either[String, ValueFilter] =
    reading("filter") {
      val in = CodedInputStream.newInstance(b)
      in.setRecursionLimit(MostNested)
      val m = FilterMessage.parseFrom(in)
      in.checkLastTagWas(0)
      sameVersion("filter", m.getVersion, version).map(_ => filter(m.getFilter))
    }

  private[dynamicfilters] def sameVersion(what: String, found: Int, known: Int): Either[String, Unit] =
    Either.cond(
      found == known,
      (),
      s"$what message of version ${Integer.toUnsignedString(found)}, only version $known is known"
    )

  private[dynamicfilters] def reading[T](what: String)(read: => Either[String, T]): Either[String, T] =
    try read
    catch { case NonFatal(e) => Left(s"$what message cannot be read: $e") }

  private def form(f: ValueFilter): FilterForm = {
    val b = FilterForm.newBuilder()
    f match {
      case ValueFilter.All => b.setAll(AllForm.getDefaultInstance)
      case ValueFilter.Nothing => b.setNothing(NothingForm.getDefaultInstance)
      case ValueFilter.NullsOnly(d) => b.setNullsOnly(NullsOnlyForm.newBuilder().setDataType(d.dataType.json))
      case r: ValueFilter.Range => b.setRange(rangeForm(r))
      case ValueFilter.Members(range, keys) =>
        b.setMembers(MembersForm.newBuilder().setRange(rangeForm(range)).setKeys(keySet(keys)))
      case ValueFilter.Both(left, right) => b.setAnd(AndForm.newBuilder().setLeft(form(left)).setRight(form(right)))
    }
    b.build()
  }

  private def rangeForm(r: ValueFilter.Range): RangeForm = {
    def end(e: End) = RangeEnd.newBuilder().setKey(key(r.domain, e.key)).setInclusive(e.inclusive)
    val range = RangeForm.newBuilder().setDataType(r.domain.dataType.json).setNulls(r.nulls)
    r.lower.foreach(e => range.setLower(end(e)))
    r.upper.foreach(e => range.setUpper(end(e)))
    range.build()
  }

  private def filter(f: FilterForm): ValueFilter = f.getFormCase match {
    case FilterForm.FormCase.ALL => ValueFilter.All
    case FilterForm.FormCase.NOTHING => ValueFilter.Nothing
    case FilterForm.FormCase.RANGE => range(f.getRange)
    case FilterForm.FormCase.NULLS_ONLY => ValueFilter.NullsOnly(readDomain(f.getNullsOnly.getDataType))
    case FilterForm.FormCase.MEMBERS =>
      val within = range(f.getMembers.getRange)
      ValueFilter.Members(within, readKeySet(within.domain, f.getMembers.getKeys))
    case FilterForm.FormCase.AND => ValueFilter.Both(filter(f.getAnd.getLeft), filter(f.getAnd.getRight))
    case other => throw new IllegalArgumentException(s"no filter: $other")
  }

  private def range(r: RangeForm): ValueFilter.Range = {
    val d = readDomain(r.getDataType)
    def end(e: RangeEnd) = End(readKey(d, e.getKey), e.getInclusive)
    ValueFilter.Range(
      d,
      Option.when(r.hasLower)(end(r.getLower)),
      Option.when(r.hasUpper)(end(r.getUpper)),
      r.getNulls
    )
  }
}
