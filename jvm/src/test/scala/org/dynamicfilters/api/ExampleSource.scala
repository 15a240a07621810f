package org.dynamicfilters.api

import java.util
import java.util.Collections

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.{Expressions, Literal, NamedReference, Transform}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A DataSource V2 source of the numbers below 1000 in ten partitions, whose scan takes filters at run time. Nothing in it is
  * about this project: Spark's own interface is all there is.
  */
class ExampleSource extends TableProvider {
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = ExampleSource.schema
  override def getTable(schema: StructType, t: Array[Transform], p: util.Map[String, String]): Table =
    new Table with SupportsRead {
      override def name: String = "example"
      override def schema: StructType = ExampleSource.schema
      override def capabilities: util.Set[TableCapability] = Collections.singleton(TableCapability.BATCH_READ)
      override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => new ExampleScan
    }
}

object ExampleSource {
  val schema: StructType = StructType.fromDDL("n bigint, text string")

  /** Partitions of the scan that was planned last. */
  @volatile var planned = 0
}

final case class Hundred(from: Long) extends InputPartition

final class ExampleScan extends Scan with Batch with SupportsRuntimeV2Filtering {
  private var predicates = Seq.empty[Predicate]

  override def readSchema: StructType = ExampleSource.schema
  override def toBatch: Batch = this
  override def filterAttributes(): Array[NamedReference] = Array(Expressions.column("n"))
  override def filter(all: Array[Predicate]): Unit = predicates = all.toSeq

  override def planInputPartitions(): Array[InputPartition] = {
    val wanted = (0L until 1000L by 100L).filter(from => predicates.forall(couldMatch(_, from)))
    ExampleSource.planned = wanted.size
    wanted.map(Hundred(_): InputPartition).toArray
  }

  private def couldMatch(p: Predicate, from: Long): Boolean = {
    val numbers = p.children.toSeq.collect { case l: Literal[_] => l.value.asInstanceOf[Long] }
    p.name match {
      case "IN" => numbers.exists(n => n >= from && n < from + 100)
      case ">=" => numbers.forall(_ < from + 100)
      case "<=" => numbers.forall(_ >= from)
      case "AND" => p.children.toSeq.collect { case c: Predicate => c }.forall(couldMatch(_, from))
      case "ALWAYS_FALSE" => false
      case _ => true
    }
  }

  override def createReaderFactory(): PartitionReaderFactory = ExampleReaders
}

object ExampleReaders extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val from = partition.asInstanceOf[Hundred].from
    val types: Seq[DataType] = ExampleSource.schema.map(_.dataType)
    val toUnsafe = org.apache.spark.sql.catalyst.expressions.UnsafeProjection.create(types.toArray)
    val rows = (from until from + 100).iterator.map { n =>
      toUnsafe(InternalRow(n, org.apache.spark.unsafe.types.UTF8String.fromString(s"number $n")))
    }
    new PartitionReader[InternalRow] {
      private var row: InternalRow = _
      override def next(): Boolean = { if (rows.hasNext) row = rows.next() else row = null; row != null }
      override def get(): InternalRow = row
      override def close(): Unit = ()
    }
  }
}
