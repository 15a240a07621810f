package org.dynamicfilters.scan

import java.lang.reflect.Method
import java.nio.{ByteBuffer, ByteOrder}
import java.util.{Collection => JCollection, Map => JMap}
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging
import org.apache.spark.sql.connector.read.{InputPartition, Scan}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain, OwnFailure}

/** The files of an Iceberg scan, with the bounds that the table's manifests hold of each. By reflection only: nothing links
  * against Iceberg, whose classes may be there or not.
  *
  * The tasks of a scan have no bounds any more: Iceberg drops them when it has planned. So the same scan, of the same
  * snapshot, is planned once more, for the bounds of the filtered columns. That reads the manifests again, and no data.
  *
  * Files never change, so what the manifests say of them is certain. It is said of the file before rows were deleted: then
  * bounds are only too wide.
  */
private final class IcebergSplits(
    spec: ScanSpec,
    bounds: Map[String, IndexedSeq[ColumnBounds]]
) extends SplitBounds
    with Logging {
  import IcebergSplits._
  override def files: Option[Long] = Some(bounds.size.toLong)

  private lazy val anything = spec.columns.map(_ => ColumnBounds.unknown)

  override def parts(split: InputPartition): Seq[SourcePart] =
    try
      if (split.getClass.getName != InputPartitionClass) Seq(SplitBounds.unknown(split, spec))
      else {
        val group = Reflect.call(split, "taskGroup")
        val tasks = Reflect.call(group, "tasks").asInstanceOf[JCollection[AnyRef]].asScala.toSeq
        tasks.map { t =>
          val path = location(Reflect.call(t, "file"))
          val one = if (tasks.size == 1) split else withTasks(split, group, t)
          val bytes = Reflect.call(t, "length").asInstanceOf[java.lang.Long].longValue
          new SourcePart(one, bounds.getOrElse(path, anything), bytes, PathHash(path))
        }
      }
    catch {
      case OwnFailure(e) =>
        logWarning("Dynamic filters: a split of an Iceberg scan is not known", e)
        Seq(SplitBounds.unknown(split, spec))
    }
}

private object IcebergSplits extends Logging {
  private val ScanClass = "org.apache.iceberg.spark.source.SparkBatchQueryScan"
  private val InputPartitionClass = "org.apache.iceberg.spark.source.SparkInputPartition"

  def has(scan: Scan, column: StructField): Boolean =
    scan.getClass.getName == ScanClass && (column.dataType match {
      case IntegerType | LongType | DateType | TimestampType | TimestampNTZType | StringType | FloatType | DoubleType =>
        true
      case _ => false
    })

  /** Whether Iceberg orders the column's values as Spark does. It does not for UUIDs, which Spark reads as STRING. */
  def inSparksOrder(scan: Scan, column: StructField): Boolean =
    try scan.getClass.getName == ScanClass && field(scan, column).isDefined
    catch {
      case OwnFailure(e) =>
        logWarning("Dynamic filters: the types of an Iceberg scan are not known", e)
        false
    }

  /** The column of the table, if it is stored as the type. */
  private def field(scan: Scan, column: StructField): Option[AnyRef] =
    Reflect
      .call(Reflect.call(scan, "projection"), "columns")
      .asInstanceOf[JCollection[AnyRef]]
      .asScala
      .find(Reflect.call(_, "name") == column.name)
      .filter(f => has(scan, column) && isStored(f, column.dataType))

  /** Plans the scan for the bounds of the spec's columns.
    *
    * @return
    *   None where they cannot be had
    */
  def of(scan: Scan, spec: ScanSpec): Option[SplitBounds] =
    try {
      val columns = spec.columns.map { c =>
        field(scan, StructField(c.name, c.domain.dataType))
          .map(f => Reflect.call(f, "fieldId").asInstanceOf[Integer] -> c.domain)
          .collect { case (id, domain) if id < FirstReservedId => new Column(id, domain) }
      }
      Option(Reflect.call(scan, "scan")).filter(_ => columns.exists(_.isDefined)).map { inner =>
        val names = spec.columns.zip(columns).collect { case (c, Some(_)) => c.name }.distinct
        // The description names table, snapshot and filters.
        val bounds = Planned((scan.description(), columns.map(_.map(_.key))))(planned(inner, names, columns))
        new IcebergSplits(spec, bounds)
      }
    } catch {
      case OwnFailure(e) =>
        logWarning("Dynamic filters: an Iceberg scan is read without regard to the bounds of its files", e)
        None
    }

  private def planned(
      scan: AnyRef,
      names: Seq[String],
      columns: IndexedSeq[Option[Column]]
  ): Map[String, IndexedSeq[ColumnBounds]] = {
    val withBounds = Reflect.call(scan, "includeColumnStats", classOf[JCollection[_]] -> names.asJava)
    val files = Reflect.call(withBounds, "planFiles").asInstanceOf[java.lang.Iterable[AnyRef] with AutoCloseable]
    try {
      val known = mutable.HashMap.empty[String, IndexedSeq[ColumnBounds]]
      // A task reads its partition spec from JSON when it is asked for it, and many tasks have the same.
      val constants = mutable.HashMap.empty[AnyRef, Map[AnyRef, Int]]
      files.asScala.foreach { task =>
        val file = Reflect.call(task, "file")
        def at = constants.getOrElseUpdate(Reflect.call(file, "specId"), constantFields(Reflect.call(task, "spec")))
        known.getOrElseUpdate(location(file), columns.map(_.fold(ColumnBounds.unknown)(_.of(file, at))))
      }
      known.toMap
    } finally files.close()
  }

  /** By their ids, the columns that a table is partitioned by as they are: where a file's partition has their values. Iceberg
    * reads these, whatever the file has.
    */
  private def constantFields(partitionSpec: AnyRef): Map[AnyRef, Int] =
    Reflect
      .call(partitionSpec, "fields")
      .asInstanceOf[JCollection[AnyRef]]
      .asScala
      .zipWithIndex
      .collect {
        case (f, at) if Reflect.call(Reflect.call(f, "transform"), "isIdentity") == true =>
          Reflect.call(f, "sourceId") -> at
      }
      .toMap

  private def location(file: AnyRef): String = Reflect.call(file, "location").toString

  /** Whether the field's values are those of the type, in its order: Iceberg has types that Spark shows as another one. */
  private def isStored(field: AnyRef, dataType: DataType): Boolean =
    (Reflect.call(field, "type").toString, dataType) match {
      case ("int", IntegerType) | ("long", LongType) | ("date", DateType) | ("string", StringType) => true
      case ("timestamptz", TimestampType) | ("timestamp", TimestampNTZType) => true
      case ("float", FloatType) | ("double", DoubleType) => true
      case _ => false
    }

  private def withTasks(split: AnyRef, group: AnyRef, task: AnyRef): InputPartition = {
    val tasks = java.util.Collections.singletonList(task)
    val one = Reflect.make(group.getClass, classOf[JCollection[_]] -> tasks)
    Reflect.copied(split, group, one).asInstanceOf[InputPartition]
  }

  /** @param id
    *   of the field: names may have changed since the file was written
    */
  private final class Column(id: Integer, domain: KeyDomain) {
    def key: (Integer, KeyDomain) = (id, domain)

    /** @param constants
      *   of the file's partition spec
      */
    def of(file: AnyRef, constants: Map[AnyRef, Int]): ColumnBounds =
      constants.get(id).fold(ofFile(file))(at => ofConstant(Reflect.call(file, "partition"), at))

    private def ofConstant(partition: AnyRef, at: Int): ColumnBounds = {
      def only(value: Any) = {
        val key = domain.fromInternal(value)
        ColumnBounds(key, key, mayHaveNulls = false, mayHaveValues = true)
      }
      Reflect.call(partition, "get", classOf[Int] -> Integer.valueOf(at), classOf[Class[_]] -> classOf[AnyRef]) match {
        case null => ColumnBounds.onlyNulls
        case n: Number if !isFloating => only(if (isOfInts) n.intValue else n.longValue)
        case s: CharSequence if domain.dataType == StringType => only(UTF8String.fromString(s.toString))
        case _ => ColumnBounds.unknown
      }
    }

    private def isOfInts = domain.dataType == IntegerType || domain.dataType == DateType

    private def ofFile(file: AnyRef): ColumnBounds = {
      def in(map: String): Option[AnyRef] =
        Option(Reflect.call(file, map).asInstanceOf[JMap[Integer, AnyRef]]).flatMap(m => Option(m.get(id)))
      def count(map: String): Option[Long] = in(map).map(_.asInstanceOf[java.lang.Long].longValue)
      val (values, nulls) = (count("valueCounts"), count("nullValueCounts"))
      val nans = count("nanValueCounts")
      // NaN is Spark's greatest value, and among no bounds.
      val mayHaveNaN = isFloating && !nans.contains(0L)
      // Of files that were imported (add_files, migrate, snapshot) bounds come from footers, without row groups that have none
      // there, for a NaN or a long string; and in milliseconds where a timestamp has them. Iceberg's own writers note where row
      // groups begin, and how many values are NaN.
      val isKnown = Reflect.call(file, "splitOffsets") != null && !(isFloating && nans.isEmpty)
      def bound(map: String) = if (isKnown) in(map).map(key).orNull else null
      ColumnBounds(
        bound("lowerBounds"),
        if (mayHaveNaN) null else atMost(bound("upperBounds")),
        mayHaveNulls = !nulls.contains(0L),
        // A file that was written before the column was added has no counts.
        mayHaveValues = !values.exists(v => v > 0 && nulls.contains(v))
      )
    }

    /** Metadata that Delta has written (UniForm) has greatest timestamps that were cut to milliseconds. */
    private def atMost(bound: AnyRef): AnyRef = (domain.dataType, bound) match {
      case (TimestampType | TimestampNTZType, n: java.lang.Long) if n <= Long.MaxValue - LostMicros =>
        Long.box(n + LostMicros)
      case _ => bound
    }

    private def isFloating = domain.dataType == FloatType || domain.dataType == DoubleType

    /** Iceberg's form of a single value. A file may be older than a promotion of int to bigint, or of float to double. */
    private def key(bound: AnyRef): AnyRef = {
      val b = bound.asInstanceOf[ByteBuffer].duplicate().order(ByteOrder.LITTLE_ENDIAN)
      val value: Any = domain.dataType match {
        case IntegerType | DateType => b.getInt
        case StringType =>
          val bytes = new Array[Byte](b.remaining)
          b.get(bytes)
          UTF8String.fromBytes(bytes)
        case FloatType => b.getFloat
        case DoubleType => if (b.remaining == 4) b.getFloat.toDouble else b.getDouble
        case LongType if b.remaining == 4 => b.getInt.toLong
        case _ => b.getLong
      }
      value match {
        case s: UTF8String if s.contains(Replacement) || s.endsWith(AfterReplacement) => null
        // Of ORC files that begin with one, older versions have it as both bounds.
        case d: Double if d.isNaN => null
        case f: Float if f.isNaN => null
        case v => domain.fromInternal(v)
      }
    }
  }

  /** Columns from here on are Iceberg's own, such as `_row_id`: what a file has not of them is no NULL. */
  private val FirstReservedId = Integer.MAX_VALUE - 200

  private val LostMicros = 999L

  /** Stands for bytes that are no UTF-8, which may be less or greater. */
  private val Replacement = UTF8String.fromString("\uFFFD")

  /** What Iceberg makes of it at the end of an upper bound that it has cut there. */
  private val AfterReplacement = UTF8String.fromString("\uFFFE")
}

/** What was planned last, so that a query that is asked again does not read the manifests again. A snapshot never changes. */
private object Planned {
  private type Bounds = Map[String, IndexedSeq[ColumnBounds]]

  private val MostScans = 16
  private val MostFiles = 20000
  private val MostFilesInAll = 50000
  private val kept = new java.util.LinkedHashMap[AnyRef, Bounds](16, 0.75f, true)

  def apply(key: AnyRef)(plan: => Bounds): Bounds =
    kept.synchronized(Option(kept.get(key))).getOrElse {
      val made = plan
      if (made.size <= MostFiles) kept.synchronized {
        kept.put(key, made)
        val eldest = kept.entrySet.iterator
        var files = kept.values.asScala.map(_.size).sum
        while (kept.size > MostScans || files > MostFilesInAll) {
          files -= eldest.next().getValue.size
          eldest.remove()
        }
      }
      made
    }
}

/** Members of classes that are not known to the compiler. */
private object Reflect {
  private def classes(c: Class[_]): Iterator[Class[_]] =
    if (c == null) Iterator.empty
    else Iterator(c) ++ c.getInterfaces.iterator.flatMap(classes) ++ classes(c.getSuperclass)

  def call(target: AnyRef, name: String, arguments: (Class[_], AnyRef)*): AnyRef = {
    val types = arguments.map(_._1)
    val method = methods.get(target.getClass).computeIfAbsent((name, types), _ => find(target.getClass, name, types))
    method.invoke(target, arguments.map(_._2): _*)
  }

  private def find(c: Class[_], name: String, types: Seq[Class[_]]): Method = {
    val method = classes(c)
      .flatMap(_.getDeclaredMethods)
      .find(m => m.getName == name && !m.isSynthetic && m.getParameterTypes.toSeq == types)
      .getOrElse(throw new NoSuchMethodException(s"${c.getName}.$name"))
    method.setAccessible(true)
    method
  }

  // A dozen calls a file; the JVM copies all methods of a class for whoever looks for one.
  private val methods = new ClassValue[ConcurrentHashMap[(String, Seq[Class[_]]), Method]] {
    override protected def computeValue(c: Class[_]) = new ConcurrentHashMap[(String, Seq[Class[_]]), Method]()
  }

  def make(c: Class[_], arguments: (Class[_], AnyRef)*): AnyRef = {
    val constructor = c.getDeclaredConstructor(arguments.map(_._1): _*)
    constructor.setAccessible(true)
    constructor.newInstance(arguments.map(_._2): _*).asInstanceOf[AnyRef]
  }

  /** A copy of an object whose constructor takes its fields, in their order, with another value of one of them. */
  def copied(target: AnyRef, before: AnyRef, after: AnyRef): AnyRef = {
    val constructor = target.getClass.getDeclaredConstructors match {
      case Array(only) => only
      case _ => throw new NoSuchMethodException(s"more than one constructor of ${target.getClass.getName}")
    }
    val fields = target.getClass.getDeclaredFields.filterNot(f => java.lang.reflect.Modifier.isStatic(f.getModifiers))
    val types = constructor.getParameterTypes
    if (fields.length < types.length || fields.map(_.getType).take(types.length).toSeq != types.toSeq)
      throw new NoSuchMethodException(s"the constructor of ${target.getClass.getName}")
    val values = fields.take(types.length).map { f =>
      f.setAccessible(true)
      f.get(target) match { case v if v eq before => after; case v => v }
    }
    constructor.setAccessible(true)
    constructor.newInstance(values.toSeq: _*).asInstanceOf[AnyRef]
  }
}
