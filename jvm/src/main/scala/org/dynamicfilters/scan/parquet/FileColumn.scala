package org.dynamicfilters.scan.parquet

import scala.jdk.CollectionConverters._

import org.apache.parquet.column.{ColumnDescriptor, Dictionary}
import org.apache.parquet.column.page.DictionaryPageReadStore
import org.apache.parquet.column.statistics.Statistics
import org.apache.parquet.column.values.bloomfilter.BloomFilter
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnChunkMetaData, ColumnPath}
import org.apache.parquet.io.api.Binary
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName._
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.dynamicfilters.filter.{ColumnBounds, ValueFilter}
import org.dynamicfilters.scan.Pruner.PageBounds
import org.dynamicfilters.scan.{NaN, ScanColumn}

/** Reads one filtered column's statistics from a file: footer, page index, dictionary and bloom filter. Used by
  * [[DynamicRowGroups]], and by [[FooterReads]] on the driver.
  *
  * Missing or unusable statistics give `unknown` bounds or None, which exclude nothing.
  *
  * @param index position in the scan's spec
  * @param ordinal position in the schema that the reader was made for
  */
final class FileColumn(access: ParquetReaderAccess, val index: Int, val filtered: ScanColumn, val ordinal: Int) {
  private def domain = filtered.domain
  private val reader: ParquetFileReader = access.fileReader
  private val field = filtered.field
  private val descriptor: Option[ColumnDescriptor] = field
    .fold(Seq.empty[(Int, Int)])(_.path)
    .foldLeft(Option(access.columns(ordinal))) { case (c, (child, _)) => c.flatMap(_.children.lift(child)) }
    .flatMap(_.descriptor)
  private val path: Option[ColumnPath] = descriptor.map(d => ColumnPath.get(d.getPath: _*))
  private val hasDefault = access.requestedSchema.fields(ordinal).metadata.contains("EXISTS_DEFAULT")

  /** Whether the file has the column. A missing column is constant. */
  val isStored: Boolean = descriptor.exists(d => reader.getFileMetaData.getSchema.containsPath(d.getPath))

  /** Whether the file has no other column of the same dotted path: a column `st.k` beside a field `k` of a struct `st`.
    * By these paths Parquet finds dictionaries, and writes bloom filters.
    */
  private lazy val hasOwnPath =
    path.exists(p => reader.getFileMetaData.getSchema.getPaths.asScala.count(_.mkString(".") == p.toDotString) == 1)
  private val keys: Option[ParquetKeys] =
    if (!isStored) None
    else
      descriptor.flatMap { d =>
        val stored = reader.getFileMetaData.getSchema.getColumnDescription(d.getPath).getPrimitiveType
        ParquetKeys.forType(domain, stored, legacyCalendar = access.datetimeRebaseMode != "CORRECTED")
      }

  /** Whether it is a top-level column of the file. First passes and tests of batches find only these. */
  def isRead: Boolean = isStored && field.isEmpty

  private def chunk(block: BlockMetaData): Option[ColumnChunkMetaData] =
    if (!isStored) None else path.flatMap(p => block.getColumns.asScala.find(_.getPath == p))

  /** Bounds from the footer. */
  def bounds(block: BlockMetaData): ColumnBounds =
    if (!isStored) { if (hasDefault) ColumnBounds.unknown else ColumnBounds.onlyNulls }
    else
      chunk(block).map(boundsOf).getOrElse(ColumnBounds.unknown)

  /** Number of NULLs, from the footer; None if unknown. */
  def nulls(block: BlockMetaData): Option[Long] =
    chunk(block).flatMap(c => Option(c.getStatistics)).filter(_.isNumNullsSet).map(_.getNumNulls)

  private def boundsOf(c: ColumnChunkMetaData): ColumnBounds = {
    val s: Statistics[_] = c.getStatistics
    if (s == null || s.isEmpty) ColumnBounds.unknown
    else {
      // An absent null count is not zero.
      val nulls = !s.isNumNullsSet || s.getNumNulls > 0
      val values = !s.isNumNullsSet || s.getNumNulls < c.getValueCount
      if (!values) ColumnBounds.onlyNulls
      else
        keys match {
          case Some(k) if s.hasNonNullValue =>
            val (min, max) = (s.genericGetMin.asInstanceOf[AnyRef], s.genericGetMax.asInstanceOf[AnyRef])
            // Some writers do not leave NaN out; then neither bound is reliable.
            if (NaN.is(min) || NaN.is(max)) ColumnBounds(null, null, nulls, mayHaveValues = true)
            else ColumnBounds(k.key(min), if (k.upperReliable) k.key(max) else null, nulls, mayHaveValues = true)
          case _ => ColumnBounds(null, null, nulls, mayHaveValues = true)
        }
    }
  }

  /** Bounds of the column's pages; None without a page index. */
  def pages(block: BlockMetaData): Option[Iterator[PageBounds]] =
    for {
      k <- keys
      c <- chunk(block)
      if c.getColumnIndexReference != null && c.getOffsetIndexReference != null
      columnIndex <- Option(reader.readColumnIndex(c))
      offsets <- Option(reader.readOffsetIndex(c))
    } yield {
      val (mins, maxs) = (columnIndex.getMinValues, columnIndex.getMaxValues)
      val (nullPages, nullCounts) = (columnIndex.getNullPages, columnIndex.getNullCounts)
      Iterator.range(0, offsets.getPageCount).map { page =>
        val bounds =
          if (nullPages.get(page)) ColumnBounds.onlyNulls
          else {
            val nulls = nullCounts == null || nullCounts.get(page) > 0
            val max = if (k.upperReliable) k.key(maxs.get(page)) else null
            ColumnBounds(k.key(mins.get(page)), max, nulls, mayHaveValues = true)
          }
        PageBounds(bounds, offsets.getFirstRowIndex(page), offsets.getLastRowIndex(page, block.getRowCount))
      }
    }

  /** Whether the dictionary has a value that passes; None if not all pages of the column chunk are dictionary-encoded.
    */
  def dictionaryCouldPass(block: BlockMetaData, filter: ValueFilter): Option[Boolean] =
    for {
      k <- keys
      c <- chunk(block)
      stats <- Option(c.getEncodingStats)
      if stats.hasDictionaryPages && stats.hasDictionaryEncodedPages && !stats.hasNonDictionaryEncodedPages
      if hasOwnPath
      page <- Option((reader.getDictionaryReader(block): DictionaryPageReadStore).readDictionaryPage(descriptor.get))
    } yield {
      val dictionary = page.getEncoding.initDictionary(descriptor.get, page)
      val values =
        (0 to dictionary.getMaxId).iterator.map(i => k.key(stored(dictionary, i)))
      val known = values.toArray
      val s: Statistics[_] = c.getStatistics
      val nulls = s == null || !s.isNumNullsSet || s.getNumNulls > 0
      // null is an unknown value.
      known.contains(null) || filter.couldPassAny(known.iterator, nulls)
    }

  /** Whether the Parquet bloom filter may contain one of the filter's points; None if there are none, or no bloom
    * filter.
    */
  def bloomCouldPass(block: BlockMetaData, filter: ValueFilter): Option[Boolean] =
    for {
      points <- filter.points
      // Without `keys`, stored values differ from those that are read (for example an int read as a byte), and so do
      // their hashes.
      _ <- keys
      c <- chunk(block)
      if c.getBloomFilterOffset >= 0 && hasOwnPath
      // Points are in the Gregorian calendar, stored values may be in the legacy one.
      if access.datetimeRebaseMode == "CORRECTED"
      bloom <- Option(reader.readBloomFilter(c))
      hashes = points.map(hash(bloom, _))
      if hashes.forall(_.isDefined)
    } yield hashes.exists(h => bloom.findHash(h.get))

  /** A value of a dictionary page. */
  private def stored(d: Dictionary, id: Int): AnyRef = descriptor.get.getPrimitiveType.getPrimitiveTypeName match {
    case INT32 => Int.box(d.decodeToInt(id))
    case INT64 => Long.box(d.decodeToLong(id))
    case FLOAT => Float.box(d.decodeToFloat(id))
    case DOUBLE => Double.box(d.decodeToDouble(id))
    case BOOLEAN => Boolean.box(d.decodeToBoolean(id))
    case _ => d.decodeToBinary(id)
  }

  /** Hashes a key as Parquet's bloom filters do, which hash stored values; None if the stored form of the key is not
    * certain.
    */
  private def hash(bloom: BloomFilter, key: AnyRef): Option[Long] =
    (domain.dataType, descriptor.get.getPrimitiveType.getPrimitiveTypeName) match {
      case (ByteType | ShortType | IntegerType | DateType, INT32) =>
        Some(bloom.hash(key.asInstanceOf[java.lang.Long].intValue))
      case (LongType, INT64) => Some(bloom.hash(key.asInstanceOf[java.lang.Long].longValue))
      case (_: StringType | BinaryType, BINARY) =>
        Some(bloom.hash(Binary.fromConstantByteArray(key.asInstanceOf[UTF8String].getBytes)))
      case _ => None
    }
}
