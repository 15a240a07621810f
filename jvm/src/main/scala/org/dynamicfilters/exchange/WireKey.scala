package org.dynamicfilters.exchange

import org.dynamicfilters.filter.{KeyBytes, KeyDomain, LongDomain, ObjectDomain}
import org.dynamicfilters.state.{Contribution, TopKSpec}

/** A key as it is sent: a number or bytes, as in proto/filters.proto (FilterKey). */
sealed trait WireKey
object WireKey {
  final case class Number(value: Long) extends WireKey

  /** @param bytes
    *   never changed
    */
  final case class Data(bytes: Array[Byte]) extends WireKey

  /** @param key
    *   not null
    */
  def of(domain: KeyDomain, key: AnyRef): WireKey = domain match {
    case _: LongDomain => Number(key.asInstanceOf[java.lang.Long])
    case d: ObjectDomain => Data(KeyBytes.view(d, key).getBytes)
  }

  /** The key, or why it is none of this type. */
  def read(domain: KeyDomain, key: WireKey): Either[String, AnyRef] = {
    val read = (domain, key) match {
      case (_: LongDomain, Number(n)) => Right(Long.box(n))
      case (d: ObjectDomain, Data(bytes)) => KeyBytes.key(d, bytes)
      case _ => Left(s"a key is of the wrong kind for type ${domain.dataType.catalogString}")
    }
    read.filterOrElse(domain.isKey, s"a key is out of range for type ${domain.dataType.catalogString}")
  }
}

/** What one partition contributes to a TopK, as it is sent.
  *
  * @param nulls
  *   how many of its best keys are SQL NULL
  * @param keys
  *   the others, best first
  */
final case class WireContribution(partition: Int, attempt: Long, nulls: Int, keys: Seq[WireKey])

object WireContribution {
  def of(spec: TopKSpec, c: Contribution): WireContribution = {
    val (nulls, values) = c.keys.span(_ == null)
    WireContribution(c.partition, c.attempt, nulls.length, values.toSeq.map(WireKey.of(spec.domain, _)))
  }

  /** The contribution, or why it is none of this TopK: what is not in order, or more than it can need, would make a wrong
    * bound.
    */
  def read(spec: TopKSpec, c: WireContribution): Either[String, Contribution] =
    if (c.partition < 0 || c.nulls < 0 || c.nulls > spec.limit || c.nulls + c.keys.length > spec.limit)
      Left(s"a contribution of ${c.nulls.toLong + c.keys.length} keys to a limit of ${spec.limit}")
    else if (c.nulls > 0 && !spec.nullsFirst) Left("a contribution of nulls where nulls are not counted")
    else {
      val keys = new Array[AnyRef](c.nulls + c.keys.length)
      var i = c.nulls
      val values = c.keys.iterator
      while (values.hasNext) {
        WireKey.read(spec.domain, values.next()) match {
          case Left(why) => return Left(why)
          case Right(k) if i > c.nulls && spec.order.compare(keys(i - 1), k) > 0 =>
            return Left("a contribution whose keys are not in order")
          case Right(k) => keys(i) = k
        }
        i += 1
      }
      Right(Contribution(c.partition, c.attempt, keys))
    }
}
