package org.dynamicfilters.user

import java.util.zip.CRC32

import scala.collection.mutable

import com.google.protobuf.ByteString
import org.dynamicfilters.proto.CommandPart

/** Assembles commands that clients send in pieces. Thread-safe.
  *
  * Memory is bounded: a command has at most `maxBytes`, the unfinished commands of a session at most `most * maxBytes`. An
  * unfinished command is dropped after `idleNanos` without a new piece. If there are too many, the oldest are dropped first.
  *
  * @param mostOfAll bytes of all sessions' unfinished commands; one command may have more
  * @param clock nanoseconds
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

    /** ByteString.concat does not copy the pieces. */
    var bytes: ByteString = ByteString.EMPTY
    var lastUsed: Long = clock()

    def take(data: ByteString): Unit = {
      data.asReadOnlyByteBufferList.forEach(sum.update(_))
      bytes = bytes.concat(data)
    }
    def isWhole: Boolean = sum.getValue.toInt == crc32
  }

  /** Finished commands. A client that missed the answer sends the last piece of such a command again. */
  private val done = new java.util.LinkedHashMap[(String, String), java.lang.Boolean]() {
    override def removeEldestEntry(e: java.util.Map.Entry[(String, String), java.lang.Boolean]): Boolean =
      size > CommandUploads.DoneKept
  }
  // Oldest first.
  private val uploads = mutable.LinkedHashMap.empty[(String, String), Upload]

  /** @return the command, if this was its last piece
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
    // Makes room for the new command. Small commands of several threads fit beside each other.
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

  /** Drops the unfinished commands of a session. */
  def drop(sessionId: String): Unit = synchronized(uploads.filterInPlace((key, _) => key._1 != sessionId))

  /** Drops commands that have got no piece for `idleNanos`. */
  def sweep(): Unit = synchronized {
    val now = clock()
    uploads.filterInPlace((_, u) => now - u.lastUsed <= idleNanos)
  }

  /** Number of unfinished commands. */
  def live: Int = synchronized { sweep(); uploads.size }
}

private object CommandUploads {

  /** Least size that an unfinished command counts for, so that many short ones are bounded, too. */
  val LeastBytes = 64L * 1024

  val DoneKept = 1000
}
