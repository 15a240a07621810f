package org.dynamicfilters.user

import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.dynamicfilters.filter.{KeyDomain, ValueFilter}

/** Hears of a filter's updates. */
trait Follower {

  /** A new generation, not under the filter's lock: of two at a time the later one may come first. Must not fail. */
  def offer(g: Generation): Unit
}

/** A filter that a user made, on the driver: a name, a type, and what passes now. Thread-safe.
  *
  * @param token
  *   made by the client that created it: tells it from other filters of the same name
  */
final class UserFilter private (
    val id: Long,
    val name: String,
    val domain: KeyDomain,
    val token: String,
    val sc: SparkContext
) {
  @volatile private var now: Generation = generation(0, ValueFilter.All)
  private val followers = mutable.LinkedHashSet.empty[Follower]

  private def generation(number: Long, f: ValueFilter): Generation = Generation(id, name, number, domain, f, this)

  /** What is in force. */
  def current: Generation = now

  def typeText: String = domain.dataType.catalogString

  def update(f: ValueFilter): Unit = {
    val (newest, all) = synchronized {
      now = generation(now.number + 1, f)
      (now, followers.toVector)
    }
    // To compare large filters takes long.
    all.foreach(_.offer(newest))
  }

  /** From now on the follower hears of updates; at once of what is in force. */
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

  def apply(name: String, domain: KeyDomain, token: String, sc: SparkContext): UserFilter =
    new UserFilter(ids.incrementAndGet(), name, domain, token, sc)
}
