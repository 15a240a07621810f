package org.dynamicfilters.scan.sources

import java.lang.reflect.Method
import java.nio.{ByteBuffer, ByteOrder}
import java.util.{Collection => JCollection, LinkedHashMap => JLinkedHashMap, Map => JMap}
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging
import org.apache.spark.sql.connector.read.{InputPartition, Scan}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain, PluginFailure}
import org.dynamicfilters.scan.{NaN, PathHash, ScanSpec}

/** The files of an Iceberg scan with their bounds from the table's manifests. Uses Iceberg's classes by reflection,
  * because they may be missing.
  *
  * Iceberg drops the bounds after planning. So the same scan of the same snapshot is planned again with the bounds of
  * the filtered columns, which reads the manifests again, but no data.
  *
  * Files never change, so the bounds are facts (contract 9). They do not consider deleted rows, so they may be too
  * wide.
  */
private object IcebergSplits extends Logging {

  /** By a file's path, its bounds by column of the spec. */
  type Bounds = Map[String, IndexedSeq[ColumnBounds]]

  private val ScanClass = "org.apache.iceberg.spark.source.SparkBatchQueryScan"
  private val InputPartitionClass = "org.apache.iceberg.spark.source.SparkInputPartition"

  /** Iceberg's types whose values have Spark's type and order. Spark shows some types of Iceberg as another type. */
  private val stored: Map[DataType, String] = Map(
    IntegerType -> "int",
    LongType -> "long",
    DateType -> "date",
    TimestampType -> "timestamptz",
    TimestampNTZType -> "timestamp",
    StringType -> "string",
    FloatType -> "float",
    DoubleType -> "double"
  )

  def has(scan: Scan, column: StructField): Boolean =
    scan.getClass.getName == ScanClass && stored.contains(column.dataType)

  /** Whether Iceberg orders the column's values as Spark does. Not UUIDs, which Spark reads as STRING. */
  def inSparksOrder(scan: Scan, column: StructField): Boolean =
    try scan.getClass.getName == ScanClass && field(scan, column).isDefined
    catch {
      case PluginFailure(e) =>
        logWarning("Dynamic filters: the types of an Iceberg scan are not known", e)
        false
    }

  /** The table's column, if Iceberg stores it as the same type. */
  private def field(scan: Scan, column: StructField): Option[AnyRef] =
    Reflect
      .call(Reflect.call(scan, "projection"), "columns")
      .asInstanceOf[JCollection[AnyRef]]
      .asScala
      .find(Reflect.call(_, "name") == column.name)
      .filter(f => has(scan, column) && stored(column.dataType) == Reflect.call(f, "type").toString)

  /** Plans the scan again for the bounds of the spec's columns.
    *
    * @return None if the bounds are not available
    */
  def forScan(scan: Scan, spec: ScanSpec): Option[SplitBounds] =
    try {
      val columns = spec.columns.map { c =>
        field(scan, StructField(c.name, c.domain.dataType))
          .map(f => Reflect.call(f, "fieldId").asInstanceOf[Integer] -> c.domain)
          .collect { case (id, domain) if id < FirstReservedId => new Column(id, domain) }
      }
      Option(Reflect.call(scan, "scan")).filter(_ => columns.exists(_.isDefined)).map { inner =>
        val names = spec.columns.zip(columns).collect { case (c, Some(_)) => c.name }.distinct
        // The description has the table, the snapshot and the filters (Iceberg 1.12).
        val bounds = PlannedBounds((scan.description(), columns.map(_.map(_.key))))(planned(inner, names, columns))
        new SplitBounds(parts(_, spec, bounds), bounds.size.toLong)
      }
    } catch {
      case PluginFailure(e) =>
        logWarning("Dynamic filters: an Iceberg scan is read without regard to the bounds of its files", e)
        None
    }

  private def parts(split: InputPartition, spec: ScanSpec, bounds: Bounds): Seq[SourcePart] =
    try
      if (split.getClass.getName != InputPartitionClass) Seq(SplitBounds.unknown(split, spec))
      else {
        val group = Reflect.call(split, "taskGroup")
        val tasks = Reflect.call(group, "tasks").asInstanceOf[JCollection[AnyRef]].asScala.toSeq
        tasks.map { t =>
          val path = location(Reflect.call(t, "file"))
          val one = if (tasks.size == 1) split else withTasks(split, group, t)
          val bytes = Reflect.call(t, "length").asInstanceOf[java.lang.Long].longValue
          val known = bounds.getOrElse(path, spec.columns.map(_ => ColumnBounds.unknown))
          new SourcePart(one, known, bytes, PathHash(path))
        }
      }
    catch {
      case PluginFailure(e) =>
        logWarning("Dynamic filters: a split of an Iceberg scan is not known", e)
        Seq(SplitBounds.unknown(split, spec))
    }

  private def planned(
      scan: AnyRef,
      names: Seq[String],
      columns: IndexedSeq[Option[Column]]
  ): Bounds = {
    val withBounds = Reflect.call(scan, "includeColumnStats", classOf[JCollection[_]] -> names.asJava)
    val files = Reflect.call(withBounds, "planFiles").asInstanceOf[java.lang.Iterable[AnyRef] with AutoCloseable]
    try {
      val known = mutable.HashMap.empty[String, IndexedSeq[ColumnBounds]]
      // Cached, because each task parses its partition spec from JSON when it is asked.
      val constants = mutable.HashMap.empty[AnyRef, Map[AnyRef, Int]]
      files.asScala.foreach { task =>
        val file = Reflect.call(task, "file")
        def at = constants.getOrElseUpdate(Reflect.call(file, "specId"), constantFields(Reflect.call(task, "spec")))
        known.getOrElseUpdate(location(file), columns.map(_.fold(ColumnBounds.unknown)(_.boundsOf(file, at))))
      }
      known.toMap
    } finally files.close()
  }

  /** By field id, the position of identity partition columns in a file's partition. Iceberg reads their values from
    * there, not from the file.
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

  private def withTasks(split: AnyRef, group: AnyRef, task: AnyRef): InputPartition = {
    val tasks = java.util.Collections.singletonList(task)
    val one = Reflect.make(group.getClass, classOf[JCollection[_]] -> tasks)
    Reflect.copied(split, group, one).asInstanceOf[InputPartition]
  }

  /** @param id field id; names may have changed since the file was written */
  private final class Column(id: Integer, domain: KeyDomain) {
    def key: (Integer, KeyDomain) = (id, domain)

    def boundsOf(file: AnyRef, constants: Map[AnyRef, Int]): ColumnBounds =
      constants.get(id).fold(fileBounds(file))(at => constantBounds(Reflect.call(file, "partition"), at))

    private def constantBounds(partition: AnyRef, at: Int): ColumnBounds = {
      def only(value: Any) = ColumnBounds.exact(domain.fromInternal(value))
      Reflect.call(partition, "get", classOf[Int] -> Integer.valueOf(at), classOf[Class[_]] -> classOf[AnyRef]) match {
        case null => ColumnBounds.onlyNulls
        case n: Number if !isFloating => only(if (isOfInts) n.intValue else n.longValue)
        case s: CharSequence if domain.dataType == StringType => only(UTF8String.fromString(s.toString))
        case _ => ColumnBounds.unknown
      }
    }

    private def isOfInts = domain.dataType == IntegerType || domain.dataType == DateType

    private def fileBounds(file: AnyRef): ColumnBounds = {
      def in(map: String): Option[AnyRef] =
        Option(Reflect.call(file, map).asInstanceOf[JMap[Integer, AnyRef]]).flatMap(m => Option(m.get(id)))
      def count(map: String): Option[Long] = in(map).map(_.asInstanceOf[java.lang.Long].longValue)
      val (values, nulls) = (count("valueCounts"), count("nullValueCounts"))
      val nans = count("nanValueCounts")
      // Bounds leave NaN out, and NaN is Spark's greatest value.
      val mayHaveNaN = isFloating && !nans.contains(0L)
      // Bounds of imported files (add_files, migrate, snapshot) come from footers. They leave out row groups without
      // bounds (because of a NaN or a long string), and may have milliseconds for timestamps. Only Iceberg's own
      // writers record split offsets and NaN counts.
      val isKnown = Reflect.call(file, "splitOffsets") != null && !(isFloating && nans.isEmpty)
      def bound(map: String) = if (isKnown) in(map).map(key).orNull else null
      ColumnBounds(
        bound("lowerBounds"),
        if (mayHaveNaN) null else atMost(bound("upperBounds")),
        mayHaveNulls = !nulls.contains(0L),
        // Files written before the column was added have no counts.
        mayHaveValues = !values.exists(v => v > 0 && nulls.contains(v))
      )
    }

    /** In metadata written by Delta (UniForm), maximal timestamps are truncated to milliseconds. */
    private def atMost(bound: AnyRef): AnyRef = (domain.dataType, bound) match {
      case (TimestampType | TimestampNTZType, n: java.lang.Long) if n <= Long.MaxValue - LostMicros =>
        Long.box(n + LostMicros)
      case _ => bound
    }

    private def isFloating = domain.dataType == FloatType || domain.dataType == DoubleType

    /** Decodes Iceberg's single-value serialization. A file may be older than a promotion of int to bigint or of float
      * to double.
      */
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
        // Older versions have NaN as both bounds of ORC files that begin with NaN.
        case v if NaN.is(v) => null
        case v => domain.fromInternal(v)
      }
    }
  }

  /** Field ids from here on are Iceberg's own columns, such as `_row_id`, which are not NULL if a file lacks them. */
  private val FirstReservedId = Integer.MAX_VALUE - 200

  private val LostMicros = 999L

  /** Replaces bytes that are not UTF-8, whose order is unknown. */
  private val Replacement = UTF8String.fromString("\uFFFD")

  /** Iceberg increments the last character of a truncated upper bound. */
  private val AfterReplacement = UTF8String.fromString("\uFFFE")
}

/** Cache of the latest bounds, so that a repeated query does not read the manifests again. A snapshot never changes. */
private object PlannedBounds {
  import IcebergSplits.Bounds

  private val MostScans = 16
  private val MostFiles = 20000
  private val kept = new JLinkedHashMap[AnyRef, Bounds](16, 0.75f, true) {
    override def removeEldestEntry(e: JMap.Entry[AnyRef, Bounds]): Boolean =
      size > MostScans || values.asScala.map(_.size).sum > 2 * MostFiles
  }

  def apply(key: AnyRef)(plan: => Bounds): Bounds =
    kept.synchronized(Option(kept.get(key))).getOrElse {
      val made = plan
      if (made.size <= MostFiles) kept.synchronized(kept.put(key, made))
      made
    }
}

/** Access to members of classes that are unknown to the compiler. */
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

  // Cached, because there are a dozen calls for each file, and getDeclaredMethods copies all methods.
  private val methods = new ClassValue[ConcurrentHashMap[(String, Seq[Class[_]]), Method]] {
    override protected def computeValue(c: Class[_]) = new ConcurrentHashMap[(String, Seq[Class[_]]), Method]()
  }

  def make(c: Class[_], arguments: (Class[_], AnyRef)*): AnyRef = {
    val constructor = c.getDeclaredConstructor(arguments.map(_._1): _*)
    constructor.setAccessible(true)
    constructor.newInstance(arguments.map(_._2): _*).asInstanceOf[AnyRef]
  }

  /** A copy of an object with one field's value replaced. Its constructor must take the fields in their order. */
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
