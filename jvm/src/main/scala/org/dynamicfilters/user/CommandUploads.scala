package org.dynamicfilters.user

import java.io.ByteArrayOutputStream
import java.util.zip.CRC32

import scala.collection.mutable

import org.dynamicfilters.proto.CommandPart

/** Puts commands together that come in pieces. Bounded: so many commands a session at once, so many bytes a command; what is
  * not finished in time is dropped, as is the oldest of too many. Thread-safe.
  *
  * @param clock
  *   nanoseconds
  */
final class CommandUploads(maxBytes: Long, most: Int, idleNanos: Long, clock: () => Long) {
  import UserFilterException.Code

  private final class Upload(val total: Long, val crc32: Int) {
    val bytes = new ByteArrayOutputStream()
    var lastUsed: Long = clock()
  }
  // Oldest first.
  private val uploads = mutable.LinkedHashMap.empty[(String, String), Upload]

  /** @return
    *   the command, if this was its last piece
    */
  def add(sessionId: String, part: CommandPart): Option[Array[Byte]] = synchronized {
    sweep()
    if (part.getTotal < 1 || part.getTotal > maxBytes)
      throw refused(s"a command of ${part.getTotal} bytes, of which at most $maxBytes are taken")
    val key = (sessionId, part.getUpload)
    val upload = uploads.getOrElseUpdate(
      key, {
        // Room for the new one.
        while (uploads.keysIterator.count(_._1 == sessionId) >= most)
          uploads.keysIterator.find(_._1 == sessionId).foreach(uploads.remove)
        new Upload(part.getTotal, part.getCrc32)
      }
    )
    val data = part.getData
    if (upload.total != part.getTotal || upload.crc32 != part.getCrc32 || part.getOffset + data.size > upload.total)
      throw drop(key, "its pieces do not belong together")
    upload.lastUsed = clock()
    if (part.getOffset + data.size <= upload.bytes.size) None // sent again
    else if (part.getOffset != upload.bytes.size)
      throw drop(key, s"a piece is missing: got byte ${part.getOffset}, expected ${upload.bytes.size}")
    else {
      data.writeTo(upload.bytes)
      Option.when(upload.bytes.size == upload.total) {
        uploads.remove(key)
        val all = upload.bytes.toByteArray
        val sum = new CRC32
        sum.update(all)
        if (sum.getValue.toInt != upload.crc32) throw refused("it was damaged on the way")
        all
      }
    }
  }

  private def drop(key: (String, String), why: String): UserFilterException = {
    uploads.remove(key)
    refused(why)
  }

  private def refused(why: String): UserFilterException =
    new UserFilterException(Code.InvalidCommand, s"a command in pieces is refused: $why")

  private def sweep(): Unit = {
    val now = clock()
    uploads.filterInPlace((_, u) => now - u.lastUsed <= idleNanos)
  }

  /** Unfinished commands. */
  def live: Int = synchronized { sweep(); uploads.size }
}
