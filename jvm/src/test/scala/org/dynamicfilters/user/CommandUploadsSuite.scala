package org.dynamicfilters.user

import java.util.zip.CRC32

import com.google.protobuf.ByteString
import org.dynamicfilters.proto.CommandPart
import org.scalatest.funsuite.AnyFunSuite

class CommandUploadsSuite extends AnyFunSuite {
  private var now = 0L
  private def uploads = new CommandUploads(maxBytes = 1 << 20, most = 2, idleNanos = 100, () => now)

  private val whole = Array.tabulate(25)(i => (i * 7).toByte)
  private def parts(id: String, data: Array[Byte] = whole, piece: Int = 10): Seq[CommandPart] = {
    val sum = new CRC32
    sum.update(data)
    data.indices.by(piece).map { at =>
      CommandPart
        .newBuilder()
        .setUpload(id)
        .setOffset(at)
        .setTotal(data.length)
        .setCrc32(sum.getValue.toInt)
        .setData(ByteString.copyFrom(data.slice(at, at + piece)))
        .build()
    }
  }
  private def refused(work: => Any): String = intercept[UserFilterException](work).getMessage

  test("pieces in order make the command, once") {
    val u = uploads
    val results = parts("a").map(u.add("s", _))
    assert(results.init.forall(_.isEmpty))
    assert(results.last.get.toByteArray.sameElements(whole))
    assert(u.live == 0)
    // The last piece again: the client did not hear of the answer.
    assert(u.add("s", parts("a").last).isEmpty)
  }

  test("unfinished commands of all sessions together are bounded, oldest first; what is late is dropped") {
    val u = new CommandUploads(maxBytes = 1 << 20, most = 2, idleNanos = 100, () => now, mostOfAll = 3 * 65536 + 10)
    Seq("r", "s", "t").foreach { session =>
      now += 1
      u.add(session, parts(session).head)
    }
    assert(u.live == 3)
    now += 1
    u.add("x", parts("x").head)
    assert(u.live == 3)
    assert(refused(u.add("r", parts("r")(1))).contains("missing"))
    now += 101
    u.sweep()
    assert(u.live == 0)
  }

  test("pieces that come twice change nothing") {
    val u = uploads
    val results = parts("a").flatMap(p => Seq(u.add("s", p), u.add("s", p)))
    assert(results.flatten.map(_.size) == Seq(whole.length))
  }

  test("a missing piece, a wrong sum, another total, too many bytes: refused, and forgotten") {
    val u = uploads
    u.add("s", parts("a").head)
    assert(refused(u.add("s", parts("a").last)).contains("missing"))
    assert(u.live == 0)
    val wrong = parts("b").map(_.toBuilder.setCrc32(5).build())
    wrong.init.foreach(u.add("s", _))
    assert(refused(u.add("s", wrong.last)).contains("damaged"))
    u.add("s", parts("c").head)
    assert(refused(u.add("s", parts("c")(1).toBuilder.setTotal(26).build())).contains("belong together"))
    assert(refused(u.add("s", parts("d").head.toBuilder.setTotal((1 << 20) + 1).build())).contains("1048576"))
    assert(refused(u.add("s", parts("e").head.toBuilder.setTotal(5).build())).contains("belong together"))
    assert(u.live == 0)
  }

  test("sessions do not meet") {
    val u = uploads
    val (a, b) = (parts("x"), parts("x", whole.reverse))
    val results = a.zip(b).flatMap { case (p, q) => Seq(u.add("s", p), u.add("t", q)) }
    assert(results.flatten.map(_.toByteArray.toSeq) == Seq(whole.toSeq, whole.reverse.toSeq))
  }

  test("what is not finished is dropped after a while, or for newer ones") {
    val u = uploads
    u.add("s", parts("a").head)
    now += 101
    assert(u.live == 0)
    val large = Array.tabulate(1 << 20)(_.toByte)
    Seq("a", "b", "c").foreach { id =>
      u.add("s", parts(id, large, 100000).head)
      now += 1
    }
    assert(u.live == 2)
    assert(refused(u.add("s", parts("a", large, 100000)(1))).contains("missing"))
    assert(u.add("s", parts("c", large, 100000)(1)).isEmpty)
  }

  test("small commands that are sent side by side are all taken") {
    val u = uploads
    val results = (0 to 2).flatMap(i => (1 to 30).flatMap(n => u.add("s", parts(n.toString)(i))))
    assert(results.map(_.toByteArray.toSeq) == Seq.fill(30)(whole.toSeq))
  }
}
