package org.dynamicfilters.filter

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.google.protobuf.{ByteString, UnsafeByteOperations}

import org.apache.spark.sql.types.DataType
import org.apache.spark.util.sketch.BloomFilter

import org.dynamicfilters.proto._

/** Encodes types, keys and sets of keys as protobuf messages, for [[FilterCodec]] and [[PartialCodec]]. Decoding may
  * throw on malformed input; the codecs catch that.
  */
private[dynamicfilters] object KeyCodec {

  def key(domain: KeyDomain, k: AnyRef): FilterKey = (domain, k) match {
    case (_: LongDomain, n: java.lang.Long) => FilterKey.newBuilder().setNumber(n).build()
    case (d: ObjectDomain, _) => FilterKey.newBuilder().setData(bytes(d, k)).build()
    case _ => throw new IllegalArgumentException(s"no key of ${domain.dataType.catalogString}: ${k.getClass.getName}")
  }

  def readKey(domain: KeyDomain, k: FilterKey): AnyRef = {
    def bad(why: String) = new IllegalArgumentException(s"a key is $why for type ${domain.dataType.catalogString}")
    val read = (k.getKeyCase, domain) match {
      case (FilterKey.KeyCase.NUMBER, _: LongDomain) => Long.box(k.getNumber)
      case (FilterKey.KeyCase.DATA, d: ObjectDomain) => KeyBytes.key(d, k.getData.toByteArray)
      case _ => throw bad("of the wrong kind")
    }
    if (domain.isKey(read)) read else throw bad("out of range")
  }

  def keySet(keys: KeySet): KeySetForm = {
    val form = KeySetForm.newBuilder()
    keys match {
      case v: ObjectValues =>
        form.setObjects(PackedObjects.newBuilder().addAllKeys(v.sorted.map(bytes(v.domain, _)).toSeq.asJava))
      case b: LongBitmap => form.setBitmap(UnsafeByteOperations.unsafeWrap(b.encode))
      case i: LongIntervals => form.setIntervals(longs(i.ends))
      case v: LongSet => form.setValues(longs(v.toArray))
      case b: Bloom =>
        val bits = ByteString.newOutput()
        b.bits.writeTo(bits)
        form.setBloom(BloomForm.newBuilder().setBits(bits.toByteString).setSize(b.size))
    }
    form.build()
  }

  def readKeySet(domain: KeyDomain, form: KeySetForm): KeySet = (form.getKeysCase, domain) match {
    case (KeySetForm.KeysCase.VALUES, d: LongDomain) => LongValues(d, readLongs(form.getValues))
    case (KeySetForm.KeysCase.INTERVALS, d: LongDomain) => LongIntervals(d, readLongs(form.getIntervals))
    case (KeySetForm.KeysCase.BITMAP, d: LongDomain) => orThrow(LongBitmap.decode(d, form.getBitmap.toByteArray))
    case (KeySetForm.KeysCase.OBJECTS, d: ObjectDomain) =>
      ObjectValues(d, form.getObjects.getKeysList.asScala.map(k => KeyBytes.key(d, k.toByteArray)).toArray)
    case (KeySetForm.KeysCase.BLOOM, d) =>
      Bloom(d, BloomFilter.readFrom(form.getBloom.getBits.newInput), form.getBloom.getSize)
    case (other, _) => throw new IllegalArgumentException(s"a set of keys of the wrong kind: $other")
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

  def readLongs(p: PackedLongs): Array[Long] = {
    // `first` is absent for zero.
    val sorted = new Array[Long](if (p.getCount == 0) 0 else p.getStepsCount + 1)
    if (sorted.nonEmpty) sorted(0) = p.getFirst
    var i = 1
    while (i < sorted.length) {
      sorted(i) = sorted(i - 1) + p.getSteps(i - 1)
      i += 1
    }
    sorted
  }

  private def orThrow[T](read: Either[String, T]): T =
    read.fold(why => throw new IllegalArgumentException(why), identity)

  def readDomain(json: String): KeyDomain = {
    // Atomic types are a quoted name. Other JSON could be nested deeply, or name a class to load.
    if (json.length > 100 || !json.startsWith("\"")) throw new IllegalArgumentException("filter of an unknown type")
    val dataType =
      try DataType.fromJson(json)
      catch { case NonFatal(_) => throw new IllegalArgumentException(s"filter of an unknown type $json") }
    orThrow(KeyDomain.forType(dataType).left.map(_.text))
  }

  def bytes(d: ObjectDomain, k: AnyRef): ByteString = ByteString.copyFrom(KeyBytes.view(d, k).getBytes)
}
