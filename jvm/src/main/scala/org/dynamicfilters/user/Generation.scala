package org.dynamicfilters.user

import java.lang.ref.WeakReference
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.types.DataType
import org.dynamicfilters.filter.{FilterCodec, KeyDomain, SoftCached, ValueFilter}

/** One generation of a user filter: its content between two updates. Immutable. Two generations are equal if the filter's id
  * and the number are.
  *
  * Plans hold it, so it is serialized with tasks: a small filter inline, a large one as a broadcast that lives as long as a plan
  * holds the generation. In local mode tasks find the driver's object itself.
  *
  * @param filterId of the user's filter, unique in this process's life
  * @param number 0 when the filter is made, one more with each update
  * @param owner the filter whose generation this is; None in executors
  */
final class Generation private (
    val filterId: Long,
    val name: String,
    val number: Long,
    val domain: KeyDomain,
    content: () => Generation.Content,
    val owner: Option[UserFilter]
) extends Serializable {
  import Generation._

  /** The condition on values of the filter's type. */
  def filter: ValueFilter = content().filter

  /** The condition on values of another type. */
  def filterFor(d: KeyDomain): ValueFilter = content().filterFor(d)

  /** Size of the encoded filter. On the driver. */
  lazy val sizeBytes: Long = FilterCodec.sizeOf(filter)

  /** The encoded filter. On the driver. */
  lazy val encoded: Array[Byte] = FilterCodec.encode(filter)

  private def isLocal: Boolean = owner.exists(_.sc.isLocal)

  private lazy val broadcast: Option[Broadcast[Array[Byte]]] =
    owner.map(_.sc).filter(_ => encoded.length > InlineBytes).map(_.broadcast(encoded))

  private def writeReplace(): AnyRef =
    if (isLocal) new OnWire(filterId, name, number, domain.dataType, null, null)
    else {
      val large = broadcast
      new OnWire(filterId, name, number, domain.dataType, if (large.isDefined) null else encoded, large.orNull)
    }

  override def equals(other: Any): Boolean = other match {
    case that: Generation => that.filterId == filterId && that.number == number
    case _ => false
  }
  override def hashCode: Int = (filterId * 31 + number).hashCode
  override def toString: String = s"generation $number"
}

object Generation {

  /** Spark deserializes a closure in every task, but a broadcast once in a process. */
  private val InlineBytes = 64 * 1024

  /** Number of decoded filters that a process keeps between tasks. */
  private val MostKept = 64

  private type Key = (Long, Long)

  /** A filter with its conversions to other types, each made once. */
  private[user] final class Content(val filter: ValueFilter) {
    private val converted = new ConcurrentHashMap[KeyDomain, ValueFilter]()

    def filterFor(d: KeyDomain): ValueFilter = converted.computeIfAbsent(d, filter.convert(_))
  }

  /** The generations made by the driver in this process. A weak reference: a query or the filter holds the generation. */
  private val made = new ConcurrentHashMap[Key, WeakReference[Generation]]()

  /** On the driver. */
  def apply(
      filterId: Long,
      name: String,
      number: Long,
      domain: KeyDomain,
      filter: ValueFilter,
      owner: UserFilter
  ): Generation = {
    val content = new Content(filter)
    val g = new Generation(filterId, name, number, domain, () => content, Some(owner))
    made.values.removeIf(_.get == null)
    made.put((filterId, number), new WeakReference(g))
    g
  }

  /** The decoded filters of an executor, least recently used first. */
  private val decoded = new java.util.LinkedHashMap[Key, SoftCached[Content]](16, 0.75f, true) {
    override def removeEldestEntry(e: java.util.Map.Entry[Key, SoftCached[Content]]): Boolean = size > MostKept
  }

  /** Decodes outside of the map's lock: tasks with other filters do not wait. */
  private def shared(key: Key, bytes: () => Array[Byte]): Content =
    decoded
      .synchronized(decoded.computeIfAbsent(key, _ => new SoftCached[Content]))
      .value(
        // `matches` is exact, so rows must not pass because a filter cannot be decoded. The query fails.
        Some(new Content(FilterCodec.decode(bytes()).fold(why => throw new IllegalStateException(why), identity)))
      )
      .get

  private final class OnWire(
      filterId: Long,
      name: String,
      number: Long,
      dataType: DataType,
      inline: Array[Byte],
      broadcast: Broadcast[Array[Byte]]
  ) extends Serializable {
    private def readResolve(): AnyRef = {
      val key = (filterId, number)
      val here = Option(made.get(key)).map(_.get).orNull
      if (here != null) here
      else {
        val domain = KeyDomain.known(dataType)
        def bytes(): Array[Byte] =
          if (inline != null) inline
          else if (broadcast != null) broadcast.value
          else throw new IllegalStateException(s"generation $number of filter '$name' is gone")
        // The task holds the content from its first use on, even if the map drops it.
        lazy val content = shared(key, () => bytes())
        new Generation(filterId, name, number, domain, () => content, None)
      }
    }
  }
}
