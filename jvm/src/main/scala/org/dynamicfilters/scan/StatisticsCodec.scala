package org.dynamicfilters.scan

import java.util.zip.CRC32C

import scala.jdk.CollectionConverters._

import com.google.protobuf.ByteString
import org.dynamicfilters.filter.{ColumnBounds, FilterCodec, KeyCodec, KeyDomain, Traverse}
import org.dynamicfilters.proto._

/** Learned statistics of a table's files, as stored between applications by [[StoredStatistics]].
  *
  * @param table
  *   its root paths, one per line
  * @param domains
  *   by column ([[ScanSpec.statisticsKey]])
  * @param splits
  *   file by file, least recently used first
  */
final case class TableFiles(table: String, domains: Map[String, KeyDomain], splits: Seq[LearnedSplit])

/** Encodes statistics of files as bytes (proto/statistics.proto), and decodes them. Decoding never throws. */
object StatisticsCodec {
  import KeyCodec.{known, readDomain}

  val Version = 1

  /** Largest number of row groups of a table, counted for each column. */
  val MostRowGroups = 200000

  /** Leaves out columns of unknown type. */
  def encode(of: TableFiles): Array[Byte] = {
    val content = StatisticsOfTable.newBuilder().setTable(of.table)
    val used = of.splits.iterator.map(_.column).filter(of.domains.contains).distinct.toIndexedSeq
    used.foreach { key =>
      content.addColumns(StatisticsColumn.newBuilder().setKey(key).setDataType(of.domains(key).dataType.json))
    }
    val index = used.zipWithIndex.toMap
    var (last, file) = (None: Option[(String, FileIdentity)], StatisticsOfFile.newBuilder())
    of.splits.foreach { s =>
      val id = Some((s.path, s.identity))
      if (id != last)
        file = content.addFilesBuilder().setPath(s.path).setLength(s.identity.length).setModified(s.identity.modified)
      last = id
      index.get(s.column).foreach(column => file.addSplits(split(s, column, of.domains(s.column))))
      s.sizes.foreach(z => file.addSizes(sizes(s.start, s.end, z)))
    }
    val bytes = content.build().toByteString
    StatisticsFile.newBuilder().setVersion(Version).setChecksum(checksum(bytes)).setContent(bytes).build().toByteArray
  }

  private def split(s: LearnedSplit, column: Int, domain: KeyDomain): StatisticsOfSplit = {
    val b = StatisticsOfSplit.newBuilder().setColumn(column).setStart(s.start).setEnd(s.end)
    s.rowGroups.foreach { g =>
      val group = StatisticsOfRowGroup.newBuilder().setMiddle(g.middle).setRows(g.rows).setBytes(g.bytes)
      setBounds(domain, g.bounds, group)
      b.addRowGroups(group)
    }
    b.build()
  }

  private def setBounds(domain: KeyDomain, bounds: ColumnBounds, to: StatisticsOfRowGroup.Builder): Unit = {
    if (bounds.min != null) to.setMin(KeyCodec.key(domain, bounds.min))
    if (bounds.max != null) to.setMax(KeyCodec.key(domain, bounds.max))
    to.setMayHaveNulls(bounds.mayHaveNulls).setMayHaveValues(bounds.mayHaveValues)
  }

  private def sizes(start: Long, end: Long, s: ChunkSizes): StatisticsSizes = {
    val b = StatisticsSizes.newBuilder().setStart(start).setEnd(end)
    s.columns.foreach(b.addColumns)
    s.middles.foreach(b.addMiddles)
    s.bytes.foreach(_.foreach(b.addBytes))
    b.build()
  }

  private def checksum(bytes: ByteString): Int = {
    val crc = new CRC32C
    bytes.asReadOnlyByteBufferList.asScala.foreach(crc.update)
    crc.getValue.toInt
  }

  /** The statistics, or why they cannot be decoded. */
  def decode(bytes: Array[Byte]): Either[String, TableFiles] =
    FilterCodec.reading("statistics") {
      val file = StatisticsFile.parseFrom(bytes)
      for {
        _ <- FilterCodec.sameVersion("statistics", file.getVersion, Version)
        _ <- known(file)
        // Empty content and checksum are what a truncated file has.
        _ <- Either.cond(
          !file.getContent.isEmpty && checksum(file.getContent) == file.getChecksum,
          (),
          "the checksum is wrong"
        )
        table <- table(StatisticsOfTable.parseFrom(file.getContent))
      } yield table
    }

  private def table(t: StatisticsOfTable): Either[String, TableFiles] =
    for {
      _ <- known(t)
      // Checked first: a row group may take two bytes on disk, but takes much more in memory.
      groups = t.getFilesList.asScala.iterator.flatMap(_.getSplitsList.asScala).map(_.getRowGroupsCount.toLong).sum
      _ <- Either.cond(groups <= MostRowGroups, (), s"$groups row groups, more than $MostRowGroups")
      columns <- Traverse(t.getColumnsList.asScala.toSeq) { c =>
        known(c).flatMap(_ => readDomain(c.getDataType)).map(c.getKey -> _)
      }
      files <- Traverse(t.getFilesList.asScala.toSeq)(readFile(_, columns))
    } yield TableFiles(t.getTable, columns.toMap, files.flatten)

  private def readFile(f: StatisticsOfFile, columns: Seq[(String, KeyDomain)]): Either[String, Seq[LearnedSplit]] = {
    val identity = FileIdentity(f.getLength, f.getModified)
    for {
      _ <- known(f)
      splits <- Traverse(f.getSplitsList.asScala.toSeq)(readSplit(_, f.getPath, identity, columns))
      sizes <- Traverse(f.getSizesList.asScala.toSeq)(readSizes)
    } yield splits.groupBy(s => (s.start, s.end)).toSeq.flatMap { case (at, of) =>
      of.head.copy(sizes = sizes.toMap.get(at)) +: of.tail
    }
  }

  private def readSplit(
      s: StatisticsOfSplit,
      path: String,
      identity: FileIdentity,
      columns: Seq[(String, KeyDomain)]
  ): Either[String, LearnedSplit] =
    for {
      _ <- known(s)
      column <- columns.lift(s.getColumn).toRight("a column that is not listed")
      groups <- Traverse(s.getRowGroupsList.asScala.toSeq) { g =>
        bounds(column._2, g).map(LearnedRowGroup(g.getMiddle, g.getRows, g.getBytes, _))
      }
    } yield LearnedSplit(path, identity, column._1, s.getStart, s.getEnd, groups.toArray)

  /** The bounds, or why they cannot be decoded. A bound that is not a key of the domain counts as unknown: a writer may have
    * truncated a string inside a character.
    */
  private def bounds(domain: KeyDomain, from: StatisticsOfRowGroup): Either[String, ColumnBounds] = {
    def key(present: Boolean, k: FilterKey): AnyRef =
      if (present) KeyCodec.readKey(domain, k).getOrElse(null) else null
    val (min, max) = (key(from.hasMin, from.getMin), key(from.hasMax, from.getMax))
    for {
      _ <- known(from)
      _ <- Either.cond(min == null || max == null || domain.compare(min, max) <= 0, (), "a minimum above the maximum")
    } yield ColumnBounds(min, max, from.getMayHaveNulls, from.getMayHaveValues)
  }

  private def readSizes(s: StatisticsSizes): Either[String, ((Long, Long), ChunkSizes)] = {
    val (columns, groups) = (s.getColumnsCount, s.getMiddlesCount)
    for {
      _ <- known(s)
      _ <- Either.cond(s.getBytesCount == columns.toLong * groups, (), "sizes that are not as many as they should be")
    } yield {
      val bytes = s.getBytesList.asScala.iterator.map(_.longValue).toArray.grouped(math.max(1, columns)).toArray
      (s.getStart, s.getEnd) ->
        ChunkSizes(s.getColumnsList.asScala.toArray, s.getMiddlesList.asScala.map(_.longValue).toArray, bytes)
    }
  }
}
