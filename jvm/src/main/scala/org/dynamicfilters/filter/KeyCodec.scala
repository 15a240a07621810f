package org.dynamicfilters.filter

import scala.util.control.NonFatal

import com.google.protobuf.{ByteString, Message, UnsafeByteOperations}

import org.apache.spark.sql.types.DataType

import org.dynamicfilters.proto._

/** Encodes types, keys and sets of keys as protobuf messages, for [[FilterCodec]] and [[PartialCodec]]. Decoding
  * allocates a small multiple of the message's size. It may throw on malformed input; the codecs catch that.
  */
private[dynamicfilters] object KeyCodec {

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

  def keySet(keys: KeySet): KeySetForm = {
    val form = KeySetForm.newBuilder()
    keys match {
      case v: ObjectValues => form.setObjects(objects(v.domain, v.sorted))
      case b: LongBitmap => form.setBitmap(UnsafeByteOperations.unsafeWrap(b.encode))
      case v: LongSet => form.setValues(longs(v.toArray))
      case b: Bloom =>
        form.setBloom(BloomForm.newBuilder().setBits(UnsafeByteOperations.unsafeWrap(b.encodeBits)).setSize(b.size))
    }
    form.build()
  }

  def readKeySet(domain: KeyDomain, form: KeySetForm): Either[String, KeySet] = known(form).flatMap { _ =>
    (form.getKeysCase, domain) match {
      case (KeySetForm.KeysCase.VALUES, d: LongDomain) => readKeys(d, form.getValues).map(LongValues(d, _))
      case (KeySetForm.KeysCase.BITMAP, d: LongDomain) => LongBitmap.decode(d, form.getBitmap.toByteArray)
      case (KeySetForm.KeysCase.OBJECTS, d: ObjectDomain) => readObjects(d, form.getObjects).map(ObjectValues(d, _))
      case (KeySetForm.KeysCase.BLOOM, d) =>
        known(form.getBloom).flatMap(_ => Bloom.decode(d, form.getBloom.getBits.toByteArray, form.getBloom.getSize))
      case _ => Left(s"a set is of the wrong kind for type ${domain.dataType.catalogString}")
    }
  }

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
        // Also finds steps of zero and overflows.
        Either.cond(SortedLongs.ascend(sorted), sorted, "the values of a set do not ascend")
      }
    }

  /** As [[readLongs]], all of them keys. */
  private def readKeys(d: LongDomain, p: PackedLongs): Either[String, Array[Long]] =
    readLongs(p).filterOrElse(
      xs =>
        xs.isEmpty || xs.head >= d.least && xs.last <= d.greatest && !(d.isFloating && java.util.Arrays
          .binarySearch(xs, SortableBits.unusedCode) >= 0),
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
    // Atomic types are a quoted name. Other JSON could be nested deeply, or name a class to load.
    if (json.length > 100 || !json.startsWith("\"")) Left("filter of an unknown type")
    else
      try KeyDomain.of(DataType.fromJson(json)).left.map(_.text)
      catch { case NonFatal(_) => Left(s"filter of an unknown type $json") }

  /** Refuses unknown fields: a newer writer may have put conditions into them. */
  def known(m: Message): Either[String, Unit] =
    Either.cond(
      m.getUnknownFields.asMap.isEmpty,
      (),
      s"${m.getDescriptorForType.getName} has fields that are not known"
    )

  private def bytes(d: ObjectDomain, k: AnyRef): ByteString = ByteString.copyFrom(KeyBytes.view(d, k).getBytes)

  private def outOfRange(d: KeyDomain): String = s"a key is out of range for type ${d.dataType.catalogString}"
}
