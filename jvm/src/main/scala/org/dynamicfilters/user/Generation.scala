package org.dynamicfilters.user

import java.lang.ref.WeakReference
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.types.DataType
import org.dynamicfilters.filter.{FilterCodec, KeyDomain, Once, ValueFilter, ValuePredicate}

/** One generation of a user's filter: what passes from one update to the next. Immutable; equal if filter and number are.
  *
  * Part of plans, so it travels with tasks. A small one travels as it is, a large one as a broadcast that lives as long as
  * some plan holds the generation. In the driver's own process (local mode) tasks find the object itself.
  *
  * @param filterId
  *   of the user's filter, unique in this process's life
  * @param number
  *   0 when the filter is made, one more with each update
  * @param owner
  *   the filter whose generation this is; None in executors
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

  /** What passes. */
  def filter: ValueFilter = content().filter

  /** The same for a column of another type. */
  def filterFor(d: KeyDomain): ValueFilter = content().filterFor(d)

  /** The same, asked for one value after the other. */
  def predicateFor(d: KeyDomain): ValuePredicate = content().predicateFor(d)

  /** Of the encoded filter; on the driver. */
  lazy val sizeBytes: Long = FilterCodec.sizeOf(filter)

  /** As bytes; on the driver. */
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

  /** A task's closure is decoded in every task, a broadcast once in a process. */
  private val InlineBytes = 64 * 1024

  /** Decoded filters that a process keeps between tasks. */
  private val MostKept = 64

  private type Key = (Long, Long)

  /** A filter, with what is made of it when it is used. */
  private[user] final class Content(val filter: ValueFilter) {
    private val converted = new ConcurrentHashMap[KeyDomain, ValueFilter]()
    private val tests = new ConcurrentHashMap[KeyDomain, ValuePredicate]()

    def filterFor(d: KeyDomain): ValueFilter = converted.computeIfAbsent(d, filter.convert(_))
    def predicateFor(d: KeyDomain): ValuePredicate = {
      val known = tests.get(d)
      if (known != null) known else tests.computeIfAbsent(d, x => new ValuePredicate(x, filterFor(x)))
    }
  }

  /** The generations that this process's driver has made, as long as somebody holds them: a query, or the filter itself. */
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

  /** On executors: decoded once, and kept while there is memory. */
  private val decoded = new java.util.LinkedHashMap[Key, Once[Content]](16, 0.75f, true) {
    override def removeEldestEntry(e: java.util.Map.Entry[Key, Once[Content]]): Boolean = size > MostKept
  }

  /** Who asks for another one does not wait for this. */
  private def shared(key: Key, bytes: () => Array[Byte]): Content =
    decoded
      .synchronized(decoded.computeIfAbsent(key, _ => new Once[Content]))
      .value(
        // Rows must not pass a filter that cannot be read: what matches is exact. So this is an error of the query.
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
        val domain = KeyDomain.of(dataType).fold(why => throw new IllegalStateException(why), identity)
        def bytes(): Array[Byte] =
          if (inline != null) inline
          else if (broadcast != null) broadcast.value
          else throw new IllegalStateException(s"generation $number of filter '$name' is gone")
        // Held by this object from its first use on, so that a task has it whatever the memory.
        lazy val content = shared(key, () => bytes())
        new Generation(filterId, name, number, domain, () => content, None)
      }
    }
  }
}
