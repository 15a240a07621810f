package org.dynamicfilters.plan

import java.lang.ref.WeakReference

import scala.collection.mutable

import org.apache.hadoop.fs.FileStatus
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex
import org.apache.spark.sql.execution.dynamicfilters.TableAccess

/** Sizes and digests of listings of files, which a planning asks for several times for each filter: of a million files one takes
  * a fifth of a second.
  *
  * A listing is known by the object that holds it. One that is refreshed is another object.
  */
private[plan] object Listings {
  private final class Known(listing: AnyRef, val of: (Long, Long)) extends WeakReference[AnyRef](listing)

  private val MostKnown = 64
  private val known = mutable.ArrayDeque.empty[Known]

  /** Bytes of all files, and a digest of their paths, sizes and times, in any order: a table that is written anew may well have its
    * size again.
    */
  def apply(files: PartitioningAwareFileIndex): (Long, Long) = {
    val listing = TableAccess.listing(files)
    known.synchronized(known.find(_.get eq listing).map(_.of)).getOrElse {
      val now =
        files.allFiles().foldLeft((0L, 0L)) { case ((size, digest), s) => (size + s.getLen, digest + digestOf(s)) }
      known.synchronized {
        known.filterInPlace(_.get != null)
        if (known.size >= MostKnown) known.removeHead()
        known.append(new Known(listing, now))
      }
      now
    }
  }

  private def digestOf(s: FileStatus): Long = {
    val h = (s.getPath.hashCode * Mix + s.getLen) * Mix + s.getModificationTime
    (h ^ (h >>> 29)) * Mix
  }

  /** Of SplitMix64: sums of numbers without a pattern do not cancel each other. */
  private val Mix = 0x9e3779b97f4a7c15L
}
