package org.dynamicfilters.api

import java.util.concurrent.atomic.LongAdder

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LeafNode, LogicalPlan, Statistics, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.{ClusteredDistribution, Distribution}
import org.apache.spark.sql.execution.{BinaryExecNode, LeafExecNode, SparkPlan, SparkStrategy, UnaryExecNode}

// One example of each trait of org.dynamicfilters.api; docs/extending.md quotes them.

/** Lets filters through: an operator that hands every row on. */
case class AuditExec(child: SparkPlan) extends UnaryExecNode with FilterPassThrough {
  override def sourceOf(column: Attribute): Option[Attribute] = Some(column)

  override def output: Seq[Attribute] = child.output
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(newChild: SparkPlan): AuditExec = copy(child = newChild)
}

/** A producer: the newest rows of each partition, a TopK without its last step. */
case class NewestExec(time: Attribute, n: Int, child: SparkPlan) extends UnaryExecNode with FilterProducer {
  override def neededRows: Seq[NeededRows] = Seq(BestRows(time, n, ascending = false))

  override def output: Seq[Attribute] = child.output
  override protected def doExecute(): RDD[InternalRow] = {
    val (at, dataType, limit) = (output.indexWhere(_.exprId == time.exprId), time.dataType, n)
    child.execute().mapPartitions { rows =>
      val order = RowOrdering.createNaturalAscendingOrdering(Seq(dataType))
      def key(r: InternalRow) = InternalRow(r.get(at, dataType))
      rows.map(_.copy()).toSeq.sortWith((a, b) => order.compare(key(a), key(b)) > 0).take(limit).iterator
    }
  }
  override protected def withNewChildInternal(newChild: SparkPlan): NewestExec = copy(child = newChild)
}

/** Another producer: keeps the rows of the left side whose column is among the keys of the right side. */
case class KeepMatchingExec(column: Attribute, key: Attribute, left: SparkPlan, right: SparkPlan)
    extends BinaryExecNode
    with FilterProducer {
  override def neededRows: Seq[NeededRows] = Seq(MatchingRows(column, key))

  override def output: Seq[Attribute] = left.output
  override def requiredChildDistribution: Seq[Distribution] =
    Seq(ClusteredDistribution(Seq(column)), ClusteredDistribution(Seq(key)))
  override protected def doExecute(): RDD[InternalRow] = {
    val (probeAt, buildAt) = (left.output.indexWhere(_.exprId == column.exprId), key)
    val keyAt = right.output.indexWhere(_.exprId == buildAt.exprId)
    left.execute().zipPartitions(right.execute()) { (probe, build) =>
      val keys = build.filterNot(_.isNullAt(keyAt)).map(_.getLong(keyAt)).toSet
      probe.filter(r => !r.isNullAt(probeAt) && keys.contains(r.getLong(probeAt)))
    }
  }
  override protected def withNewChildrenInternal(l: SparkPlan, r: SparkPlan): KeepMatchingExec =
    copy(left = l, right = r)
}

/** A consumer: a scan of blocks of consecutive numbers, which it makes up. */
case class BlocksExec(output: Seq[Attribute], blocks: Int, blockSize: Int, filters: Seq[DynamicFilter] = Nil)
    extends LeafExecNode
    with FilterConsumer {
  override def withFilter(filter: DynamicFilter): SparkPlan = copy(filters = filters :+ filter)

  override protected def doExecute(): RDD[InternalRow] = {
    val (size, asked) = (blockSize, filters)
    sparkContext.range(0, blocks.toLong, numSlices = 2).mapPartitions { mine =>
      val toUnsafe = UnsafeProjection.create(Array[org.apache.spark.sql.types.DataType](output.head.dataType))
      mine.flatMap { block =>
        val (first, last) = (block * size, block * size + size - 1)
        // Before each block, with what is known by then.
        if (asked.forall(_.current.mayMatchBetween(first, last, nulls = false))) {
          BlocksExec.read.increment()
          (first to last).iterator.map(n => toUnsafe(InternalRow(n)): InternalRow)
        } else Iterator.empty
      }
    }
  }
}

object BlocksExec {

  /** Blocks read, in this process. */
  val read = new LongAdder
}

// What a query holds before it is planned; nothing of it is about filters.
case class Audit(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): Audit = copy(child = newChild)
}
case class Newest(time: Attribute, n: Int, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): Newest = copy(child = newChild)
}
case class KeepMatching(column: Attribute, key: Attribute, left: LogicalPlan, right: LogicalPlan) extends BinaryNode {
  override def output: Seq[Attribute] = left.output
  override protected def withNewChildrenInternal(l: LogicalPlan, r: LogicalPlan): KeepMatching =
    copy(left = l, right = r)
}
case class Blocks(output: Seq[Attribute], blocks: Int, blockSize: Int) extends LeafNode {
  override def computeStats(): Statistics = Statistics(sizeInBytes = BigInt(blocks) * blockSize * 8)
}

object ExampleStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case a: Audit => AuditExec(planLater(a.child)) :: Nil
    case n: Newest => NewestExec(n.time, n.n, planLater(n.child)) :: Nil
    case k: KeepMatching => KeepMatchingExec(k.column, k.key, planLater(k.left), planLater(k.right)) :: Nil
    case b: Blocks => BlocksExec(b.output, b.blocks, b.blockSize) :: Nil
    case _ => Nil
  }
}
