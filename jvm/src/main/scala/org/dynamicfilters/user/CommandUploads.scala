package org.dynamicfilters.user

import java.util.zip.CRC32

import scala.collection.mutable

import com.google.protobuf.ByteString
import org.dynamicfilters.proto.CommandPart

/** Puts commands together that come in pieces. Bounded: so many bytes a command, and as many at once in a session as so many of
  * the largest have; what is not finished in time is dropped, as is what waits longest of too many. Thread-safe.
  *
  * @param mostOfAll
  *   bytes of all sessions' unfinished commands; one command may have more
  * @param clock
  *   nanoseconds
  */
final class CommandUploads(
    maxBytes: Long,
    most: Int,
    idleNanos: Long,
    clock: () => Long,
    mostOfAll: Long = Long.MaxValue
) {
  import UserFilterException.Code

  private final class Upload(val total: Long, val crc32: Int) {
    private val sum = new CRC32

    /** A rope: its pieces are not copied. */
    var bytes: ByteString = ByteString.EMPTY
    var lastUsed: Long = clock()

    def take(data: ByteString): Unit = {
      data.asReadOnlyByteBufferList.forEach(sum.update(_))
      bytes = bytes.concat(data)
    }
    def isWhole: Boolean = sum.getValue.toInt == crc32
  }

  /** Finished commands, of which a client may send the last piece again. */
  private val done = new java.util.LinkedHashMap[(String, String), java.lang.Boolean]() {
    override def removeEldestEntry(e: java.util.Map.Entry[(String, String), java.lang.Boolean]): Boolean =
      size > CommandUploads.DoneKept
  }
  // Oldest first.
  private val uploads = mutable.LinkedHashMap.empty[(String, String), Upload]

  /** @return
    *   the command, if this was its last piece
    */
  def add(sessionId: String, part: CommandPart): Option[ByteString] = synchronized {
    sweep()
    val key = (sessionId, part.getUpload)
    if (done.containsKey(key)) None
    else {
      if (part.getTotal < 1 || part.getTotal > maxBytes)
        throw refused(s"${part.getTotal} bytes, of which at most $maxBytes are taken")
      val upload = uploads.getOrElseUpdate(key, started(sessionId, part))
      if (
        upload.total != part.getTotal || upload.crc32 != part.getCrc32 ||
        part.getOffset + part.getData.size > upload.total
      )
        throw drop(key, "its pieces do not belong together")
      upload.lastUsed = clock()
      if (part.getOffset + part.getData.size <= upload.bytes.size) None // sent again
      else if (part.getOffset != upload.bytes.size)
        throw drop(key, s"a piece is missing: got byte ${part.getOffset}, expected ${upload.bytes.size}")
      else {
        upload.take(part.getData)
        Option.when(upload.bytes.size == upload.total) {
          uploads.remove(key)
          if (!upload.isWhole) throw refused("it was damaged on the way")
          done.put(key, true)
          upload.bytes
        }
      }
    }
  }

  private def started(sessionId: String, part: CommandPart): Upload = {
    def own = uploads.filter(_._1._1 == sessionId)
    // Room for the new one. Threads that send small commands side by side do not drop each other's.
    def size(u: Upload) = math.max(u.total, CommandUploads.LeastBytes)
    while (own.valuesIterator.map(size).sum + part.getTotal > most * maxBytes)
      own.minByOption(_._2.lastUsed).foreach { case (key, _) => uploads.remove(key) }
    while (uploads.nonEmpty && uploads.valuesIterator.map(size).sum + part.getTotal > mostOfAll)
      uploads.minByOption(_._2.lastUsed).foreach { case (key, _) => uploads.remove(key) }
    new Upload(part.getTotal, part.getCrc32)
  }

  private def drop(key: (String, String), why: String): UserFilterException = {
    uploads.remove(key)
    refused(why)
  }

  private def refused(why: String): UserFilterException =
    new UserFilterException(Code.InvalidCommand, s"a command in pieces is refused: $why")

  /** Forgets what a session has begun. */
  def drop(sessionId: String): Unit = synchronized(uploads.filterInPlace((key, _) => key._1 != sessionId))

  /** Drops what was not finished in time. */
  def sweep(): Unit = synchronized {
    val now = clock()
    uploads.filterInPlace((_, u) => now - u.lastUsed <= idleNanos)
  }

  /** Unfinished commands. */
  def live: Int = synchronized { sweep(); uploads.size }
}

private object CommandUploads {

  /** What each counts for: many of them may be announced to be short. */
  val LeastBytes = 64L * 1024

  val DoneKept = 1000
}
