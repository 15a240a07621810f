package org.dynamicfilters.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, BoundReference, ExprId}
import org.apache.spark.sql.execution.LocalTableScanExec
import org.apache.spark.sql.types.LongType
import org.dynamicfilters.filter.{KeyCollector, KeyDomain, KeyLimits}

/** Facts of a build side without tables. */
class NoTables extends BuildSideFacts {
  override def listed: Seq[Any] = Nil
  override def repeats: Boolean = true
  override def expectedShare: Double = 1
  override def passed: Seq[String] = Nil
}

/** Filters of joins by one BIGINT key, and what tasks report of their keys. */
trait JoinFilters {
  protected val domain = KeyDomain.forType(LongType).toOption.get
  protected val limits = KeyLimits(maxRows = 1000, inMaxValues = 100, bloomFpp = 0.01, maxFilterBytes = 1 << 20)
  protected def state = new JoinState(1, nullsMatch = false, limits)
  protected def ref(name: String) = {
    val build = LocalTableScanExec(Seq(AttributeReference(name, LongType)(ExprId(0))), Nil, None)
    JoinRef("k=j", build, BoundReference(0, LongType, nullable = true), nullsMatch = false, limits, new NoTables)
  }
  protected def keys(values: Long*): Array[Byte] = {
    val c = KeyCollector(domain, limits, 2)
    values.foreach(v => c.add(InternalRow(v), 0))
    c.result().encode
  }
  protected def passes(s: JoinState, key: Long): Boolean = s.current.get.passes(Long.box(key))
}
