package org.dynamicfilters.scan

import scala.jdk.CollectionConverters._

import org.apache.parquet.column.ColumnDescriptor
import org.apache.parquet.column.page.DictionaryPageReadStore
import org.apache.parquet.column.statistics.Statistics
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnChunkMetaData, ColumnPath}
import org.apache.spark.sql.execution.dynamicfilters.ParquetReaderAccess
import org.dynamicfilters.filter.{ColumnBounds, KeyDomain, ValueFilter}
import org.dynamicfilters.scan.Pruner.PageBounds

/** What a file's footer, page index, dictionary and bloom filter say of one filtered column.
  *
  * Everything here may be absent or unusable; the answer is then "unknown", which excludes nothing.
  *
  * @param ordinal
  *   position in the scan's required schema
  */
final class FileColumn(access: ParquetReaderAccess, ordinal: Int, domain: KeyDomain) {
  private val reader: ParquetFileReader = access.fileReader
  private val column = access.columns(ordinal)
  private val descriptor: Option[ColumnDescriptor] = column.descriptor
  private val path: Option[ColumnPath] = descriptor.map(d => ColumnPath.get(d.getPath: _*))
  private val hasDefault = access.requestedSchema.fields(ordinal).metadata.contains("EXISTS_DEFAULT")
  private val inFile = descriptor.exists(d => reader.getFileMetaData.getSchema.containsPath(d.getPath))
  private val keys: Option[ParquetKeys] =
    if (!inFile) None
    else
      descriptor.flatMap { d =>
        val stored = reader.getFileMetaData.getSchema.getColumnDescription(d.getPath).getPrimitiveType
        ParquetKeys.of(domain, stored, legacyCalendar = access.datetimeRebaseMode != "CORRECTED")
      }

  /** Whether the column's values can be read from this file at all; a missing one is constant. */
  def isStored: Boolean = inFile

  def chunk(block: BlockMetaData): Option[ColumnChunkMetaData] =
    if (!inFile) None else path.flatMap(p => block.getColumns.asScala.find(_.getPath == p))

  /** From the footer. */
  def bounds(block: BlockMetaData): ColumnBounds =
    if (!inFile) { if (hasDefault) ColumnBounds.unknown else ColumnBounds.onlyNulls }
    else
      chunk(block).map(boundsOf).getOrElse(ColumnBounds.unknown)

  /** How many rows are SQL NULL, from the footer; None where it does not say. */
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
            // A NaN as minimum comes from writers that did not leave it out; then neither end is to be trusted.
            if (isNaN(min) || isNaN(max)) ColumnBounds(null, null, nulls, mayHaveValues = true)
            else ColumnBounds(k.key(min), if (k.upperReliable) k.key(max) else null, nulls, mayHaveValues = true)
          case _ => ColumnBounds(null, null, nulls, mayHaveValues = true)
        }
    }
  }

  private def isNaN(v: AnyRef): Boolean = v match {
    case d: java.lang.Double => d.isNaN
    case f: java.lang.Float => f.isNaN
    case _ => false
  }

  /** Bounds of the column's pages, None where the file has no page index for the column. */
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

  /** Whether the chunk's dictionary holds a value that passes; None where the chunk is not dictionary-encoded throughout. */
  def dictionaryCouldPass(block: BlockMetaData, filter: ValueFilter): Option[Boolean] =
    for {
      k <- keys
      c <- chunk(block)
      stats <- Option(c.getEncodingStats)
      if stats.hasDictionaryPages && stats.hasDictionaryEncodedPages && !stats.hasNonDictionaryEncodedPages
      page <- Option((reader.getDictionaryReader(block): DictionaryPageReadStore).readDictionaryPage(descriptor.get))
    } yield {
      val dictionary = page.getEncoding.initDictionary(descriptor.get, page)
      val values =
        (0 to dictionary.getMaxId).iterator.map(i => k.key(DictionaryValues.stored(dictionary, descriptor.get, i)))
      val known = values.toArray
      val s: Statistics[_] = c.getStatistics
      val nulls = s == null || !s.isNumNullsSet || s.getNumNulls > 0
      // A value that says nothing may be any value.
      known.contains(null) || filter.couldPassAny(known.iterator, nulls)
    }

  /** Whether the Parquet bloom filter knows one of the filter's points; None where there are no points or no bloom filter. */
  def bloomCouldPass(block: BlockMetaData, filter: ValueFilter): Option[Boolean] =
    for {
      points <- filter.points
      // Where a stored value is not the one that is read, as of an int read as a byte, its hash says nothing.
      _ <- keys
      c <- chunk(block)
      if c.getBloomFilterOffset >= 0
      // Points are in today's calendar, the bloom filter holds what is stored.
      if access.datetimeRebaseMode == "CORRECTED"
      bloom <- Option(reader.readBloomFilter(c))
      hashes = points.map(BloomHashes.of(bloom, descriptor.get.getPrimitiveType, domain, _))
      if hashes.forall(_.isDefined)
    } yield hashes.exists(h => bloom.findHash(h.get))
}
