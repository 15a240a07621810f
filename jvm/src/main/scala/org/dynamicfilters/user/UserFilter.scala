package org.dynamicfilters.user

import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.dynamicfilters.filter.{KeyDomain, ValueFilter}

/** Is told of a filter's updates. */
trait Follower {

  /** Takes a new generation. Called without the filter's lock, so generations may arrive in another order. Must not throw. */
  def offer(g: Generation): Unit
}

/** A filter that a user made: name, type and current generation. On the driver. Thread-safe.
  *
  * @param token a random text from the client that created the filter; distinguishes filters of the same name
  */
final class UserFilter(val name: String, val domain: KeyDomain, val token: String, val sc: SparkContext) {
  val id: Long = UserFilter.ids.incrementAndGet()
  @volatile private var now: Generation = generation(0, ValueFilter.All)
  private val followers = mutable.LinkedHashSet.empty[Follower]

  private def generation(number: Long, f: ValueFilter): Generation = Generation(id, name, number, domain, f, this)

  /** The generation in force. */
  def current: Generation = now

  def typeText: String = domain.dataType.catalogString

  def update(f: ValueFilter): Unit = {
    val (newest, all) = synchronized {
      now = generation(now.number + 1, f)
      (now, followers.toVector)
    }
    // Outside of the lock: comparing large filters takes long.
    all.foreach(_.offer(newest))
  }

  /** Subscribes a follower. It gets the current generation at once, then each update. */
  def follow(f: Follower): Unit = {
    val newest = synchronized {
      followers += f
      now
    }
    f.offer(newest)
  }
  def unfollow(f: Follower): Unit = synchronized(followers -= f)
}

object UserFilter {
  private val ids = new AtomicLong
}
