package org.dynamicfilters.exchange

import org.dynamicfilters.filter.{KeyBytes, KeyDomain, LongDomain, ObjectDomain, Traverse}
import org.dynamicfilters.state.{Contribution, TopKSpec}

/** A key as it is sent: a number or bytes, as in proto/filters.proto (FilterKey). */
sealed trait WireKey {
  import WireKey._

  /** The key, or why it is no key of this type. */
  def decode(domain: KeyDomain): Either[String, AnyRef] = {
    val key = (domain, this) match {
      case (_: LongDomain, Number(n)) => Right(Long.box(n))
      case (d: ObjectDomain, Data(bytes)) => Right(KeyBytes.key(d, bytes))
      case _ => Left(s"a key is of the wrong kind for type ${domain.dataType.catalogString}")
    }
    key.filterOrElse(domain.isKey, s"a key is out of range for type ${domain.dataType.catalogString}")
  }
}
object WireKey {
  final case class Number(value: Long) extends WireKey

  /** @param bytes
    *   never changed
    */
  final case class Data(bytes: Array[Byte]) extends WireKey

  /** @param key
    *   not null
    */
  def encode(domain: KeyDomain, key: AnyRef): WireKey = domain match {
    case _: LongDomain => Number(key.asInstanceOf[java.lang.Long])
    case d: ObjectDomain => Data(KeyBytes.view(d, key).getBytes)
  }
}

/** What one partition contributes to a TopK, as it is sent.
  *
  * @param nulls
  *   number of SQL NULLs among its best keys
  * @param keys
  *   the other keys, best first
  */
final case class WireContribution(partition: Int, attempt: Long, nulls: Int, keys: Seq[WireKey]) {

  /** The contribution, or why it is no contribution to this TopK. Unordered keys, or more than the TopK can need, would make a
    * wrong bound.
    */
  def decode(spec: TopKSpec): Either[String, Contribution] =
    if (partition < 0 || nulls < 0 || nulls > spec.limit || nulls + keys.length > spec.limit)
      Left(s"a contribution of ${nulls.toLong + keys.length} keys to a limit of ${spec.limit}")
    else if (nulls > 0 && !spec.nullsFirst) Left("a contribution of nulls where nulls are not counted")
    else
      Traverse(keys)(_.decode(spec.domain))
        .filterOrElse(
          values => values.lazyZip(values.drop(1)).forall(spec.order.compare(_, _) <= 0),
          "a contribution whose keys are not in order"
        )
        .map(values => Contribution(partition, attempt, Array.fill[AnyRef](nulls)(null) ++ values))
}

object WireContribution {
  def encode(spec: TopKSpec, c: Contribution): WireContribution = {
    val (nulls, values) = c.keys.span(_ == null)
    WireContribution(c.partition, c.attempt, nulls.length, values.toSeq.map(WireKey.encode(spec.domain, _)))
  }
}
