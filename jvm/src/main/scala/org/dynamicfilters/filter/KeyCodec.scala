package org.dynamicfilters.filter

import scala.util.control.NonFatal

import com.google.protobuf.{ByteString, CodedOutputStream, Message, UnsafeByteOperations, WireFormat}

import org.apache.spark.sql.types.DataType

import org.dynamicfilters.proto._

/** Types, keys and sets of keys as protobuf messages, for [[FilterCodec]] and [[PartialCodec]]. Reading gives reasons, never
  * more memory than the message takes several times, but may throw: the codecs catch that.
  */
private[filter] object KeyCodec {

  def key(domain: KeyDomain, k: AnyRef): FilterKey = (domain, k) match {
    case (_: LongDomain, n: java.lang.Long) => FilterKey.newBuilder().setNumber(n).build()
    case (d: ObjectDomain, _) => FilterKey.newBuilder().setData(bytes(d, k)).build()
    case _ => throw new IllegalArgumentException(s"no key of ${domain.dataType.catalogString}: ${k.getClass.getName}")
  }

  def readKey(domain: KeyDomain, k: FilterKey): Either[String, AnyRef] =
    for {
      _ <- known(k)
      read <- (k.getKeyCase, domain) match {
        case (FilterKey.KeyCase.NUMBER, _: LongDomain) => Right(Long.box(k.getNumber))
        case (FilterKey.KeyCase.DATA, d: ObjectDomain) => KeyBytes.key(d, k.getData.toByteArray)
        case _ => Left(s"a key is of the wrong kind for type ${domain.dataType.catalogString}")
      }
      _ <- Either.cond(domain.isKey(read), (), outOfRange(domain))
    } yield read

  def longs(sorted: Array[Long]): PackedLongs = {
    val b = PackedLongs.newBuilder().setCount(sorted.length)
    if (sorted.nonEmpty) b.setFirst(sorted(0))
    var i = 1
    while (i < sorted.length) {
      b.addSteps(sorted(i) - sorted(i - 1))
      i += 1
    }
    b.build()
  }

  /** The bytes of [[longs]], made without a list of the steps: that takes eight bytes for each, in an array that grows. */
  def packed(sorted: Array[Long]): ByteString = {
    import CodedOutputStream._
    val steps = Math.toIntExact(sizeOf(sorted))
    val most = computeSInt64Size(1, Long.MinValue) + computeTagSize(2) + computeUInt32SizeNoTag(steps) + steps +
      computeUInt32Size(3, sorted.length)
    val bytes = new Array[Byte](most)
    val out = newInstance(bytes)
    if (sorted.nonEmpty) out.writeSInt64(1, sorted(0))
    if (steps > 0) {
      out.writeTag(2, WireFormat.WIRETYPE_LENGTH_DELIMITED)
      out.writeUInt32NoTag(steps)
      var i = 1
      while (i < sorted.length) {
        out.writeUInt64NoTag(sorted(i) - sorted(i - 1))
        i += 1
      }
    }
    out.writeUInt32(3, sorted.length)
    UnsafeByteOperations.unsafeWrap(bytes, 0, most - out.spaceLeft)
  }

  /** [[readLongs]] of the bytes of [[packed]]: nothing is made but the array. */
  def readPacked(b: ByteString): Either[String, Array[Long]] = {
    val in = b.newCodedInput()
    var first = 0L
    var count = 0
    var sorted: Array[Long] = null
    var tag = in.readTag()
    while (tag != 0) {
      (WireFormat.getTagFieldNumber(tag), WireFormat.getTagWireType(tag)) match {
        case (1, WireFormat.WIRETYPE_VARINT) => first = in.readSInt64()
        case (2, WireFormat.WIRETYPE_LENGTH_DELIMITED) if sorted == null =>
          val length = in.readRawVarint32()
          val limit = in.pushLimit(length)
          sorted = new Array[Long](1 + varints(b, in.getTotalBytesRead, length))
          var i = 1
          while (i < sorted.length) {
            sorted(i) = in.readUInt64()
            i += 1
          }
          if (!in.isAtEnd) return Left("a set whose values do not end where it says")
          in.popLimit(limit)
        case (3, WireFormat.WIRETYPE_VARINT) => count = in.readUInt32()
        case _ => return Left("PackedLongs has fields that are not known")
      }
      tag = in.readTag()
    }
    if (sorted == null) sorted = new Array[Long](math.min(1, math.max(0, count)))
    if (count != sorted.length || count == 0 && first != 0L) Left("a set whose values are not as many as it says")
    else {
      if (count > 0) sorted(0) = first
      var i = 1
      while (i < count) {
        sorted(i) += sorted(i - 1)
        i += 1
      }
      Either.cond(LongValues.ascend(sorted), sorted, "the values of a set do not ascend")
    }
  }

  /** How many varints end in this part. */
  private def varints(b: ByteString, from: Int, length: Int): Int = {
    var i, n = 0
    while (i < length) {
      if (b.byteAt(from + i) >= 0) n += 1
      i += 1
    }
    n
  }

  /** How many bytes [[longs]] of them takes, but for a few. */
  def sizeOf(sorted: Array[Long]): Long = {
    var bytes = 0L
    var i = 1
    while (i < sorted.length) {
      bytes += sizeOfStep(sorted(i) - sorted(i - 1))
      i += 1
    }
    bytes
  }

  /** How many bytes a number takes that lies so far above the one before. */
  def sizeOfStep(step: Long): Int = CodedOutputStream.computeUInt64SizeNoTag(step)

  /** Ascending and distinct numbers. */
  def readLongs(p: PackedLongs): Either[String, Array[Long]] =
    known(p).flatMap { _ =>
      if (p.getCount < 0 || p.getCount != p.getStepsCount + (if (p.getCount == 0) 0 else 1))
        Left("a set whose values are not as many as it says")
      else {
        val sorted = new Array[Long](p.getCount)
        if (sorted.nonEmpty) sorted(0) = p.getFirst
        var i = 1
        while (i < sorted.length) {
          sorted(i) = sorted(i - 1) + p.getSteps(i - 1)
          i += 1
        }
        // A step of zero, and one that overflows, shows here.
        Either.cond(LongValues.ascend(sorted), sorted, "the values of a set do not ascend")
      }
    }

  /** As [[readLongs]], all of them keys. */
  def readKeys(d: LongDomain, p: PackedLongs): Either[String, Array[Long]] = keysOf(d, readLongs(p))

  /** As [[readPacked]], all of them keys. */
  def readPackedKeys(d: LongDomain, b: ByteString): Either[String, Array[Long]] = keysOf(d, readPacked(b))

  private def keysOf(d: LongDomain, read: Either[String, Array[Long]]): Either[String, Array[Long]] =
    read.filterOrElse(
      xs =>
        xs.isEmpty || (xs.head >= d.least && xs.last <= d.greatest && !(d.isFloating && xs
          .contains(SortableBits.hole))),
      outOfRange(d)
    )

  def objects(d: ObjectDomain, sorted: Array[AnyRef]): PackedObjects = {
    val b = PackedObjects.newBuilder()
    sorted.foreach(k => b.addKeys(bytes(d, k)))
    b.build()
  }

  /** Ascending and distinct keys. */
  def readObjects(d: ObjectDomain, p: PackedObjects): Either[String, Array[AnyRef]] =
    known(p).flatMap { _ =>
      val keys = new Array[AnyRef](p.getKeysCount)
      var i = 0
      while (i < keys.length) {
        KeyBytes.key(d, p.getKeys(i).toByteArray) match {
          case Left(why) => return Left(why)
          case Right(k) if i > 0 && d.compare(keys(i - 1), k) >= 0 => return Left("the values of a set do not ascend")
          case Right(k) => keys(i) = k
        }
        i += 1
      }
      Right(keys)
    }

  def readDomain(json: String): Either[String, KeyDomain] =
    // Atomic types are a quoted name. Anything else in JSON could be nested without end, or name a class to load.
    if (json.length > 100 || !json.startsWith("\"")) Left("filter of an unknown type")
    else
      try KeyDomain.of(DataType.fromJson(json))
      catch { case NonFatal(_) => Left(s"filter of an unknown type $json") }

  /** Newer writers may put conditions into fields that this version does not know. */
  def known(m: Message): Either[String, Unit] =
    Either.cond(
      m.getUnknownFields.asMap.isEmpty,
      (),
      s"${m.getDescriptorForType.getName} has fields that are not known"
    )

  private def bytes(d: ObjectDomain, k: AnyRef): ByteString = ByteString.copyFrom(KeyBytes.view(d, k).getBytes)

  private def outOfRange(d: KeyDomain): String = s"a key is out of range for type ${d.dataType.catalogString}"
}
