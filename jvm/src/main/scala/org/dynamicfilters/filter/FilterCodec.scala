package org.dynamicfilters.filter

import scala.util.control.NonFatal

import com.google.protobuf.{ByteString, InvalidProtocolBufferException, Message}

import org.apache.spark.sql.types.{BinaryType, DataType, Decimal, DecimalType, StringType}
import org.apache.spark.unsafe.types.UTF8String

import org.dynamicfilters.proto._

/**
 * Filters as bytes (proto/filters.proto), and back. The only place that knows the protobuf classes.
 *
 * Decoding never throws. What is not fully understood is refused with a reason and so filters nothing: a filter that was
 * misread could drop rows.
 */
object FilterCodec {

  /** The version written, and the only one read. Rises with every change of the schema. */
  val version: Int = 1

  def encode(f: ValueFilter): Array[Byte] =
    FilterMessage.newBuilder().setVersion(version).setFilter(form(f)).build().toByteArray

  /** The filter, or why there is none. */
  def decode(b: Array[Byte]): Either[String, ValueFilter] =
    try {
      val m = FilterMessage.parseFrom(b)
      // First of all: the rest of another version may mean anything.
      if (m.getVersion != version)
        Left(s"filter message of version ${Integer.toUnsignedString(m.getVersion)}, only version $version is known")
      else
        for {
          _ <- known(m)
          _ <- Either.cond(m.hasFilter, (), "filter message without a filter")
          f <- filter(m.getFilter)
        } yield f
    } catch {
      case e: InvalidProtocolBufferException => Left(s"not a filter message: ${e.getMessage}")
      case NonFatal(e) => Left(s"filter message cannot be read: $e")
    }

  private def form(f: ValueFilter): FilterForm = {
    val b = FilterForm.newBuilder()
    f match {
      case ValueFilter.All => b.setAll(AllForm.getDefaultInstance)
      case ValueFilter.Nothing => b.setNothing(NothingForm.getDefaultInstance)
      case ValueFilter.NullsOnly(d) => b.setNullsOnly(NullsOnlyForm.newBuilder().setDataType(d.dataType.json))
      case r: ValueFilter.Range =>
        val range = RangeForm.newBuilder().setDataType(r.domain.dataType.json).setNulls(r.nulls)
        r.lower.foreach(e => range.setLower(end(r.domain, e)))
        r.upper.foreach(e => range.setUpper(end(r.domain, e)))
        b.setRange(range)
    }
    b.build()
  }

  private def end(domain: KeyDomain, e: End): RangeEnd =
    RangeEnd.newBuilder().setKey(key(domain, e.key)).setInclusive(e.inclusive).build()

  private def key(domain: KeyDomain, k: AnyRef): FilterKey = {
    val b = FilterKey.newBuilder()
    (domain.dataType, k) match {
      case (_, n: java.lang.Long) => b.setNumber(n)
      case (_, s: UTF8String) => b.setData(ByteString.copyFrom(s.getBytes))
      case (_, bytes: Array[Byte]) => b.setData(ByteString.copyFrom(bytes))
      case (t: DecimalType, d: Decimal) =>
        b.setData(ByteString.copyFrom(d.toJavaBigDecimal.setScale(t.scale).unscaledValue.toByteArray))
      case _ => throw new IllegalArgumentException(s"no key of ${domain.dataType.catalogString}: ${k.getClass.getName}")
    }
    b.build()
  }

  private def filter(f: FilterForm): Either[String, ValueFilter] = known(f).flatMap { _ =>
    f.getFormCase match {
      case FilterForm.FormCase.ALL => known(f.getAll).map(_ => ValueFilter.All)
      case FilterForm.FormCase.NOTHING => known(f.getNothing).map(_ => ValueFilter.Nothing)
      case FilterForm.FormCase.RANGE => range(f.getRange)
      case FilterForm.FormCase.NULLS_ONLY => nullsOnly(f.getNullsOnly)
      case _ => Left("filter of an unknown form")
    }
  }

  private def nullsOnly(n: NullsOnlyForm): Either[String, ValueFilter] =
    for {
      _ <- known(n)
      d <- domain(n.getDataType)
    } yield ValueFilter.NullsOnly(d)

  private def range(r: RangeForm): Either[String, ValueFilter] =
    for {
      _ <- known(r)
      d <- domain(r.getDataType)
      lower <- if (r.hasLower) end(d, r.getLower).map(Some(_)) else Right(None)
      upper <- if (r.hasUpper) end(d, r.getUpper).map(Some(_)) else Right(None)
    } yield ValueFilter.Range(d, lower, upper, r.getNulls)

  private def end(d: KeyDomain, e: RangeEnd): Either[String, End] =
    for {
      _ <- known(e)
      _ <- known(e.getKey)
      k <- key(d, e.getKey)
      _ <- Either.cond(d.isKey(k), (), s"a key is out of range for type ${d.dataType.catalogString}")
    } yield End(k, e.getInclusive)

  private def key(d: KeyDomain, k: FilterKey): Either[String, AnyRef] = (k.getKeyCase, d.dataType) match {
    case (FilterKey.KeyCase.NUMBER, _) if d.isInstanceOf[LongDomain] => Right(Long.box(k.getNumber))
    case (FilterKey.KeyCase.DATA, BinaryType) => Right(k.getData.toByteArray)
    case (FilterKey.KeyCase.DATA, StringType) => Right(UTF8String.fromBytes(k.getData.toByteArray))
    case (FilterKey.KeyCase.DATA, t: DecimalType) if d.isInstanceOf[ObjectDomain] => decimal(k.getData, t)
    case _ => Left(s"a key is of the wrong kind for type ${d.dataType.catalogString}")
  }

  private def decimal(data: ByteString, t: DecimalType): Either[String, Decimal] =
    // 38 digits fit in 16 bytes; more would only cost time to find out.
    if (data.isEmpty || data.size > 16) Left(s"a key of ${data.size} bytes is no ${t.catalogString}")
    else {
      val unscaled = new java.math.BigDecimal(new java.math.BigInteger(data.toByteArray), t.scale)
      if (unscaled.precision > t.precision) Left(s"a key has too many digits for type ${t.catalogString}")
      else Right(Decimal(unscaled, t.precision, t.scale))
    }

  private def domain(json: String): Either[String, KeyDomain] =
    // Atomic types are a quoted name. Anything else in JSON could be nested without end, or name a class to load.
    if (json.length > 100 || !json.startsWith("\"")) Left("filter of an unknown type")
    else
      try KeyDomain.of(DataType.fromJson(json))
      catch { case NonFatal(_) => Left(s"filter of an unknown type $json") }

  /** Newer writers may put conditions into fields that this version does not know. */
  private def known(m: Message): Either[String, Unit] =
    Either.cond(
      m.getUnknownFields.asMap.isEmpty,
      (),
      s"${m.getDescriptorForType.getName} has fields that are not known"
    )
}
