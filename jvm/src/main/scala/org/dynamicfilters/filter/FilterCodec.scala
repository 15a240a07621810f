package org.dynamicfilters.filter

import scala.util.control.NonFatal

import com.google.protobuf.{CodedInputStream, InvalidProtocolBufferException}

import org.dynamicfilters.proto._

/** Encodes filters as bytes (proto/filters.proto), and decodes them.
  *
  * Decoding never throws. A message with any unknown part is refused with a reason: a filter that is misread could drop
  * rows.
  */
object FilterCodec {
  import KeyCodec._

  /** The version that is written, and the only one that is read. Raised with every change of the schema. */
  val version: Int = 3

  /** Levels of nested messages. `Both` takes two levels for each filter; protobuf's default limit is 100 levels. */
  private val MostNested = 1000

  /** Largest number of filters in nested `Both`s. */
  val mostParts: Int = 256

  def encode(f: ValueFilter): Array[Byte] =
    FilterMessage.newBuilder().setVersion(version).setFilter(form(f)).build().toByteArray

  /** Number of bytes that [[encode]] returns. */
  def sizeOf(f: ValueFilter): Long =
    FilterMessage.newBuilder().setVersion(version).setFilter(form(f)).build().getSerializedSize.toLong

  /** The filter, or why it cannot be decoded. */
  def decode(b: Array[Byte]): Either[String, ValueFilter] =
    reading("filter") {
      val in = CodedInputStream.newInstance(b)
      in.setRecursionLimit(MostNested)
      val m = FilterMessage.parseFrom(in)
      in.checkLastTagWas(0)
      for {
        // Checked first: fields of another version may have another meaning.
        _ <- sameVersion("filter", m.getVersion, version)
        _ <- known(m)
        _ <- Either.cond(m.hasFilter, (), "filter message without a filter")
        f <- filter(m.getFilter)
      } yield f
    }

  private[dynamicfilters] def sameVersion(what: String, found: Int, known: Int): Either[String, Unit] =
    Either.cond(
      found == known,
      (),
      s"$what message of version ${Integer.toUnsignedString(found)}, only version $known is known"
    )

  private[dynamicfilters] def reading[T](what: String)(read: => Either[String, T]): Either[String, T] =
    try read
    catch {
      case e: InvalidProtocolBufferException => Left(s"not a $what message: ${e.getMessage}")
      case NonFatal(e) => Left(s"$what message cannot be read: $e")
    }

  private def form(f: ValueFilter): FilterForm = {
    val b = FilterForm.newBuilder()
    f match {
      case ValueFilter.All => b.setAll(AllForm.getDefaultInstance)
      case ValueFilter.Nothing => b.setNothing(NothingForm.getDefaultInstance)
      case ValueFilter.NullsOnly(d) => b.setNullsOnly(NullsOnlyForm.newBuilder().setDataType(d.dataType.json))
      case r: ValueFilter.Range => b.setRange(rangeForm(r))
      case ValueFilter.Members(range, keys) => b.setMembers(membersForm(range, keys))
      case ValueFilter.Both(left, right) => b.setAnd(AndForm.newBuilder().setLeft(form(left)).setRight(form(right)))
    }
    b.build()
  }

  private def rangeForm(r: ValueFilter.Range): RangeForm = {
    val range = RangeForm.newBuilder().setDataType(r.domain.dataType.json).setNulls(r.nulls)
    r.lower.foreach(e => range.setLower(end(r.domain, e)))
    r.upper.foreach(e => range.setUpper(end(r.domain, e)))
    range.build()
  }

  private def end(domain: KeyDomain, e: End): RangeEnd =
    RangeEnd.newBuilder().setKey(key(domain, e.key)).setInclusive(e.inclusive).build()

  private def membersForm(range: ValueFilter.Range, keys: KeySet): MembersForm =
    MembersForm.newBuilder().setRange(rangeForm(range)).setKeys(keySet(keys)).build()

  private def filter(f: FilterForm): Either[String, ValueFilter] = known(f).flatMap { _ =>
    f.getFormCase match {
      case FilterForm.FormCase.ALL => known(f.getAll).map(_ => ValueFilter.All)
      case FilterForm.FormCase.NOTHING => known(f.getNothing).map(_ => ValueFilter.Nothing)
      case FilterForm.FormCase.RANGE => range(f.getRange)
      case FilterForm.FormCase.NULLS_ONLY => nullsOnly(f.getNullsOnly)
      case FilterForm.FormCase.MEMBERS => members(f.getMembers)
      case FilterForm.FormCase.AND => both(f.getAnd)
      case _ => Left("filter of an unknown form")
    }
  }

  private def nullsOnly(n: NullsOnlyForm): Either[String, ValueFilter] =
    for {
      _ <- known(n)
      d <- readDomain(n.getDataType)
    } yield ValueFilter.NullsOnly(d)

  private def range(r: RangeForm): Either[String, ValueFilter.Range] =
    for {
      _ <- known(r)
      d <- readDomain(r.getDataType)
      lower <- if (r.hasLower) end(d, r.getLower).map(Some(_)) else Right(None)
      upper <- if (r.hasUpper) end(d, r.getUpper).map(Some(_)) else Right(None)
    } yield ValueFilter.Range(d, lower, upper, r.getNulls)

  private def end(d: KeyDomain, e: RangeEnd): Either[String, End] =
    for {
      _ <- known(e)
      k <- readKey(d, e.getKey)
    } yield End(k, e.getInclusive)

  private def members(m: MembersForm): Either[String, ValueFilter] =
    for {
      _ <- known(m)
      r <- range(m.getRange)
      keys <- readKeySet(r.domain, m.getKeys)
      f <-
        try Right(ValueFilter.Members(r, keys))
        catch { case e: IllegalArgumentException => Left(e.getMessage) }
    } yield f

  private def both(a: AndForm): Either[String, ValueFilter] =
    for {
      _ <- known(a)
      left <- filter(a.getLeft)
      right <- filter(a.getRight)
    } yield ValueFilter.Both(left, right)
}
