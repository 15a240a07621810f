package org.dynamicfilters.user

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.dynamicfilters.UserError
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{Bloom, End, FilterCodec, KeyDomain, UserForms, ValueFilter}
import org.dynamicfilters.proto.{UserBetween, UserForm, UserValue, UserValues}

/** Makes a filter from the values that a client sent, and checks them against the filter's type. All errors are
  * [[UserFilterException]]s that name the filter and its type.
  *
  * @param mostValues more integers than this are held as a bitmap
  * @param bloomFpp false positive rate where the client names none
  */
final class FormReader(name: String, domain: KeyDomain, mostValues: Int, bloomFpp: Double) {
  import UserFilterException.Code

  private val dataType = domain.dataType

  /** Needs fifty hashes for each value. Spark's BloomFilter refuses more when it is read. */
  private val LeastFpp = 1e-15

  /** The largest size of a command. */
  private val MostBloomBytes = 512L * 1024 * 1024

  /** Above it several integers have the same double. */
  private val MostExact = (1L << 53).toDouble

  def read(form: UserForm): ValueFilter = form.getFormCase match {
    case UserForm.FormCase.EVERYTHING => ValueFilter.All
    case UserForm.FormCase.NOTHING => ValueFilter.Nothing
    case UserForm.FormCase.BETWEEN => between(form.getBetween)
    case UserForm.FormCase.VALUES =>
      UserForms.values(domain, keys(form.getValues), form.getValues.getNulls, mostValues)
    case UserForm.FormCase.BITMAP =>
      UserForms.bitmap(domain, form.getBitmap.getData.toByteArray, form.getBitmap.getBits) match {
        case Right(f) => f
        case Left(refusal) =>
          throw error(if (refusal.isDamaged) Code.InvalidForm else Code.TypeMismatch, refusal.reason)
      }
    case UserForm.FormCase.BLOOM =>
      val fpp = if (form.getBloom.getFpp == 0) bloomFpp else form.getBloom.getFpp
      if (!(fpp > 0 && fpp < 1)) throw error(Code.InvalidForm, s"a false positive rate of $fpp is not between 0 and 1")
      val v = form.getBloom.getValues
      val bytes = Bloom.sizeInBytes(v.getIntegersCount.toLong + v.getOthersCount, fpp)
      if (fpp < LeastFpp || bytes > MostBloomBytes)
        throw error(
          Code.InvalidForm,
          s"a Bloom filter with a false positive rate of $fpp of so many values would have $bytes bytes; " +
            s"a rate of at least $LeastFpp and $MostBloomBytes bytes are possible"
        )
      UserForms.bloom(domain, keys(v), v.getNulls, fpp)
    case UserForm.FormCase.ALL_OF =>
      form.getAllOf.getPartsList.asScala.map(read).foldLeft(ValueFilter.All: ValueFilter) { (before, part) =>
        val all = before.and(part)
        if (parts(all) > FilterCodec.mostParts)
          throw error(
            Code.InvalidForm,
            s"more than ${FilterCodec.mostParts} Bloom filters and sets that have to be passed one by one"
          )
        all
      }
    case _ => throw error(Code.InvalidForm, "a form that this version does not know")
  }

  private def parts(f: ValueFilter): Int = f match {
    case ValueFilter.Both(left, right) => parts(left) + parts(right)
    case _ => 1
  }

  private def between(b: UserBetween): ValueFilter = {
    val lower = Option.when(b.hasLower)(End(key(b.getLower), inclusive = true))
    val upper = Option.when(b.hasUpper)(End(key(b.getUpper), inclusive = true))
    ValueFilter.range(domain, lower, upper, nulls = false)
  }

  private def keys(v: UserValues): Iterator[AnyRef] =
    v.getIntegersList.asScala.iterator.map(integer(_)) ++ v.getOthersList.asScala.iterator.map(key)

  private def key(v: UserValue): AnyRef = (v.getValueCase, dataType) match {
    case (UserValue.ValueCase.INTEGER, _) => integer(v.getInteger)
    case (UserValue.ValueCase.FLAG, BooleanType) => domain.fromInternal(v.getFlag)
    case (UserValue.ValueCase.NUMBER, DoubleType) => domain.fromInternal(v.getNumber)
    case (UserValue.ValueCase.NUMBER, FloatType) =>
      val f = v.getNumber.toFloat
      if ((f.isInfinite && !v.getNumber.isInfinite) || (f == 0 && v.getNumber != 0)) throw unfit(v.getNumber.toString)
      domain.fromInternal(f)
    case (UserValue.ValueCase.DECIMAL, t: DecimalType) => decimal(number(v.getDecimal), t)
    case (UserValue.ValueCase.TEXT, StringType) => domain.fromInternal(UTF8String.fromString(v.getText))
    case (UserValue.ValueCase.DATA, BinaryType) => domain.fromInternal(v.getData.toByteArray)
    case (UserValue.ValueCase.DATE_DAYS, DateType) => domain.fromInternal(v.getDateDays)
    case (UserValue.ValueCase.INSTANT_MICROS, TimestampType) => domain.fromInternal(v.getInstantMicros)
    case (UserValue.ValueCase.LOCAL, TimestampType) => domain.fromInternal(v.getLocal.getInstantMicros)
    case (UserValue.ValueCase.LOCAL, TimestampNTZType) => domain.fromInternal(v.getLocal.getWallMicros)
    case (UserValue.ValueCase.DURATION_MICROS, _: DayTimeIntervalType) => domain.fromInternal(v.getDurationMicros)
    // TIME, known by its name: see LongDomain.
    case (UserValue.ValueCase.TIME_NANOS, t) if t.typeName.startsWith("time(") => domain.fromInternal(v.getTimeNanos)
    case (UserValue.ValueCase.NUMBER, _: DecimalType) =>
      throw unfit(v.getNumber.toString, "; floats are not exact: give a Decimal")
    case (UserValue.ValueCase.NUMBER, t) if KeyDomain.isInteger(t) => whole(v.getNumber)
    case (UserValue.ValueCase.DECIMAL, t) if KeyDomain.isInteger(t) => whole(v.getDecimal)
    case _ => throw unfit(shown(v))
  }

  /** Reads an integer that came as a float: pandas makes floats of integers if values are missing. */
  private def whole(n: Double): AnyRef =
    if (n.isNaN) throw unfit("NaN", "; leave missing values out, as dropna() does, or put None for NULL")
    else if (n.isInfinite) throw unfit(n.toString)
    else if (n != math.rint(n)) throw unfit(n.toString, "; round it, or make a filter of type double")
    else if (math.abs(n) > MostExact) throw unfit(n.toString, "; floats of this size are not exact: give integers")
    else integer(n.toLong)

  private def whole(text: String): AnyRef = {
    val n = number(text)
    val whole =
      try n.longValueExact
      catch { case _: ArithmeticException => throw unfit(text) }
    integer(whole)
  }

  private def integer(n: Long): AnyRef = dataType match {
    case t if KeyDomain.isInteger(t) =>
      val k = Long.box(n)
      if (domain.isKey(k)) k else throw unfit(n.toString)
    case DoubleType if n.toDouble.toLong == n && n != Long.MaxValue => domain.fromInternal(n.toDouble)
    case FloatType if n.toFloat.toLong == n && n != Long.MaxValue => domain.fromInternal(n.toFloat)
    case t: DecimalType => decimal(java.math.BigDecimal.valueOf(n), t)
    case FloatType | DoubleType => throw unfit(n.toString, "; it is not exactly one of that type: give a float")
    case _ => throw unfit(n.toString)
  }

  /** Python's decimals may be infinite or NaN. */
  private def number(text: String): java.math.BigDecimal =
    try new java.math.BigDecimal(text)
    catch { case _: NumberFormatException => throw unfit(text) }

  private def decimal(n: java.math.BigDecimal, t: DecimalType): AnyRef = {
    // 1E+999999999 would become a billion digits.
    val short = n.stripTrailingZeros
    if (!KeyDomain.fits(short, t.precision, t.scale)) throw unfit(n.toString)
    domain.fromInternal(Decimal(short.setScale(t.scale), t.precision, t.scale))
  }

  private def shown(v: UserValue): String = v.getValueCase match {
    case UserValue.ValueCase.FLAG => v.getFlag.toString
    case UserValue.ValueCase.NUMBER => v.getNumber.toString
    case UserValue.ValueCase.DECIMAL => v.getDecimal
    case UserValue.ValueCase.TEXT => s"'${v.getText.take(40)}'"
    case UserValue.ValueCase.DATA => "a binary value"
    case UserValue.ValueCase.DATE_DAYS => "a date"
    case UserValue.ValueCase.INSTANT_MICROS => "a timestamp with a time zone"
    case UserValue.ValueCase.LOCAL => "a timestamp without a time zone"
    case UserValue.ValueCase.DURATION_MICROS => "a duration"
    case UserValue.ValueCase.TIME_NANOS => "a time of day"
    case _ => "an unknown value"
  }

  /** The Python values that the type accepts, for error messages. */
  private def taken: String = dataType match {
    case ByteType => "integers of 8 bits"
    case ShortType => "integers of 16 bits"
    case IntegerType => "integers of 32 bits"
    case LongType => "integers of 64 bits"
    case FloatType | DoubleType => "numbers"
    case t: DecimalType => s"numbers of ${t.precision - t.scale} digits before the point and ${t.scale} after it"
    case BooleanType => "true and false"
    case _: StringType => "text"
    case BinaryType => "bytes"
    case DateType => "dates"
    case TimestampType => "timestamps"
    case TimestampNTZType => "timestamps without a time zone"
    case _: DayTimeIntervalType => "durations"
    case t if t.typeName.startsWith("time(") => "times of day"
    case _ => "values of another type"
  }

  private def unfit(value: String, instead: String = s"; it takes $taken"): UserFilterException = {
    val text = UserError.shown(value)
    error(Code.TypeMismatch, s"$text is no value of type ${dataType.catalogString}$instead")
  }

  private def error(code: Code, what: String): UserFilterException =
    UserFilterException.of(code, name, dataType.catalogString, what)
}
