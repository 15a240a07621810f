package org.dynamicfilters.state

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.execution.{LeafExecNode, LocalTableScanExec}
import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.KeyDomain
import org.scalatest.funsuite.AnyFunSuite

/** When two TopKs' filters are taken for one. */
class TopKRefSuite extends AnyFunSuite {
  private val spec =
    TopKSpec(KeyDomain.forType(LongType).toOption.get, 10, ascending = true, nullsFirst = false, tiesFree = false)
  private def scan = LocalTableScanExec(Seq(AttributeReference("k", LongType)()), Nil, None)

  test("filters of equal operators are equal, whatever the ids of their columns") {
    val (x, y) = (TopKRef(scan, spec), TopKRef(scan, spec))
    assert(x == y && x.hashCode == y.hashCode && x.id != y.id)
  }

  test("filters that look for something else are not") {
    val ref = TopKRef(scan, spec)
    Seq(
      spec.copy(limit = 11),
      spec.copy(ascending = false),
      spec.copy(nullsFirst = true),
      spec.copy(tiesFree = true),
      spec.copy(distinct = true)
    ).foreach(other => assert(TopKRef(scan, other) != ref, other))
    assert(TopKRef(scan, spec, ordinal = 1) != ref)
    assert(TopKRef(scan, spec, producer = Producer.aggregate) != ref)
  }

  test("filters of different operators are not, even if those have the same hash") {
    val (x, y) = (TopKRef(SameHash(1), spec), TopKRef(SameHash(2), spec))
    assert(x.hashCode == y.hashCode && x != y)
    assert(x == TopKRef(SameHash(1), spec))
  }
}

private final case class SameHash(n: Int) extends LeafExecNode {
  override def output: Seq[Attribute] = Nil
  override protected def doExecute(): RDD[InternalRow] = throw new UnsupportedOperationException
  override def hashCode: Int = 7
}
