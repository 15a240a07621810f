package org.dynamicfilters.scan

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarBatch, ColumnarMap}
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}
import org.dynamicfilters.filter.{End, KeyDomain, Selection, ValueFilter}
import org.dynamicfilters.reasons.Reasons
import org.dynamicfilters.state.StepTracker
import org.scalatest.funsuite.AnyFunSuite

class BatchSelectorSuite extends AnyFunSuite {
  import ScanCounter._

  private val domain = KeyDomain.forType(LongType).toOption.get
  private def atMost(x: Long): ValueFilter =
    ValueFilter.Range(domain, None, Some(End(Long.box(x), inclusive = true)), nulls = false)

  private class Fixture(giveUp: Double = 0.6) {
    val report = new ScanReport(1, "driver")
    var filter: ValueFilter = ValueFilter.All
    var asked = 0
    private val tests = new RowTests(IndexedSeq(new StepTracker(giveUp)), report)
    private def active() = {
      asked += 1
      tests.active(IndexedSeq(filter), IndexedSeq((0, 0)))
    }
    val test = new BatchSelector(() => active(), tests, report)
  }

  /** Numbers from 0 in the first column, as text in the second. */
  private def batch(rows: Int): ColumnarBatch = {
    val vectors = Array(new OnHeapColumnVector(rows, LongType), new OnHeapColumnVector(rows, StringType))
    (0 until rows).foreach { i =>
      vectors(0).putLong(i, i.toLong)
      vectors(1).putByteArray(i, i.toString.getBytes)
    }
    new ColumnarBatch(vectors.toArray[ColumnVector], rows)
  }

  /** Its rows' numbers. */
  private class Numbers(dataType: DataType) extends ColumnVector(dataType) {
    private def unread: Nothing = throw new UnsupportedOperationException(s"it has ${dataType.sql}")
    override def close(): Unit = ()
    override def hasNull: Boolean = false
    override def numNulls: Int = 0
    override def isNullAt(row: Int): Boolean = false
    override def getLong(row: Int): Long = row.toLong
    override def getBoolean(row: Int): Boolean = unread
    override def getByte(row: Int): Byte = unread
    override def getShort(row: Int): Short = unread
    override def getInt(row: Int): Int = unread
    override def getFloat(row: Int): Float = unread
    override def getDouble(row: Int): Double = unread
    override def getArray(row: Int): ColumnarArray = unread
    override def getMap(row: Int): ColumnarMap = unread
    override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = unread
    override def getUTF8String(row: Int): UTF8String = unread
    override def getBinary(row: Int): Array[Byte] = unread
    override def getChild(ordinal: Int): ColumnVector = unread
  }

  private def texts(b: ColumnarBatch): Seq[String] = (0 until b.numRows).map(b.column(1).getUTF8String(_).toString)

  test("rows that do not pass are left out, with all their columns") {
    val f = new Fixture()
    val b = batch(10)
    assert(f.test(b) eq b)
    f.filter = atMost(3)
    assert(texts(f.test(b)) == Seq("0", "1", "2", "3"))
    // Spark's operators may hold it while they read the next one.
    val first = f.test(b)
    f.filter = atMost(1)
    assert(texts(f.test(b)) == Seq("0", "1") && texts(first) == Seq("0", "1", "2", "3"))
    assert(f.report(RowsDropped) == 6 + 6 + 8 && f.report(RowsOutput) == -20)
    assert(texts(b).size == 10)
  }

  test("a batch of which nothing passes is empty; one of which all pass is the reader's own") {
    val f = new Fixture(giveUp = 1)
    val b = batch(10)
    f.filter = ValueFilter.Nothing
    assert(f.test(b).numRows == 0)
    f.filter = atMost(100)
    assert(f.test(b) eq b)
    assert(f.test(batch(0)).numRows == 0)
  }

  test("batches of other sizes and other files") {
    val f = new Fixture()
    f.filter = atMost(2)
    Seq(5, 3, 4000, 8).foreach(n => assert(texts(f.test(batch(n))) == Seq("0", "1", "2")))
  }

  test("it is given up where most rows pass, says so, and is tried again now and then") {
    val f = new Fixture()
    f.filter = atMost(1700)
    val whole = (1 to 50).count { _ =>
      val b = batch(2000)
      f.test(b) eq b
    }
    assert(whole == 46)
    assert(f.report.reasons == Map(Reasons.RowsNotTested.text -> 1))
  }

  test("a failure lets all rows pass from then on, is counted and has a reason") {
    val f = new Fixture()
    f.filter = atMost(3)
    val broken = new ColumnarBatch(Array.empty[ColumnVector], 10)
    assert(f.test(broken) eq broken)
    val b = batch(10)
    assert((f.test(b) eq b) && f.asked == 1)
    assert(f.report(Fallbacks) == 1 && f.report.reasons.keys.head.contains("while testing rows"))
  }

  test("a view reads values of every kind from the row that it stands for") {
    val struct = new StructType().add("a", IntegerType).add("b", new StructType().add("c", StringType))
    val v = new OnHeapColumnVector(4, struct)
    (0 until 4).foreach { i =>
      v.getChild(0).putInt(i, i * 10)
      v.getChild(1).getChild(0).putByteArray(i, s"c$i".getBytes)
    }
    v.putNull(1)
    val numbers = new OnHeapColumnVector(4, ArrayType(IntegerType))
    (0 until 4).foreach { i =>
      numbers.arrayData().appendInt(i)
      numbers.putArray(i, i, 1)
    }
    val decimals = new OnHeapColumnVector(4, DecimalType(30, 2))
    (0 until 4).foreach(i => decimals.putDecimal(i, Decimal(i * 100L + 1, 30, 2), 30))
    val intervals = new OnHeapColumnVector(4, CalendarIntervalType)
    (0 until 4).foreach(i => intervals.putInterval(i, new CalendarInterval(i, 2, 3)))
    val s = new Selection(4)
    s.all(4)
    s.rows(0) = 1
    s.rows(1) = 3
    s.count = 2
    val view = SelectedBatch(new ColumnarBatch(Array[ColumnVector](v, numbers, decimals, intervals), 4), s)
    assert(view.numRows == 2)
    def both[T](f: InternalRow => T): Seq[T] = Seq(f(view.getRow(0)), f(view.getRow(1)))
    assert(both(_.isNullAt(0)) == Seq(true, false))
    assert(view.getRow(1).getStruct(0, 2).getInt(0) == 30)
    assert(view.getRow(1).getStruct(0, 2).getStruct(1, 1).getUTF8String(0) == UTF8String.fromString("c3"))
    assert(both(_.getArray(1).getInt(0)) == Seq(1, 3))
    assert(both(_.getDecimal(2, 30, 2).toString) == Seq("1.01", "3.01"))
    assert(both(_.getInterval(3).months) == Seq(1, 3))
  }

  // Vectors of Arrow have no children for an interval: the view's own default would ask for them.
  test("a view reads intervals of a vector that has no children") {
    class Intervals extends Numbers(CalendarIntervalType) {
      override def getInterval(row: Int): CalendarInterval = new CalendarInterval(row, 0, 0)
    }
    val s = new Selection(4)
    s.all(4)
    s.rows(0) = 3
    s.count = 1
    val view = SelectedBatch(new ColumnarBatch(Array[ColumnVector](new Intervals), 4), s)
    assert(view.getRow(0).getInterval(0).months == 3)
  }

  test("a source's vectors are freed when Spark has taken a view's rows, Spark's own are kept") {
    var freed = 0

    /** As Arrow's, it is closed when its rows have been taken. */
    class Arrow extends Numbers(LongType) {
      override def close(): Unit = freed += 1
    }
    val arrow = new Arrow
    val f = new Fixture(giveUp = 1)
    f.filter = atMost(3)
    val some = f.test(new ColumnarBatch(Array(arrow), 10))
    assert(some.numRows == 4 && freed == 0)
    some.closeIfFreeable()
    assert(freed == 1)
    val own = batch(10)
    f.test(own).closeIfFreeable()
    assert(texts(f.test(own)).size == 4)
  }
}
