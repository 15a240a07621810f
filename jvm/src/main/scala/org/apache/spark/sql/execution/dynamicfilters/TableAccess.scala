package org.apache.spark.sql.execution.dynamicfilters

import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.connector.write.{RowLevelOperationTable, SupportsDelta}

/** Tables of DataSource V2. */
object TableAccess {

  /** Whether what is read of the table is written again: MERGE, UPDATE or DELETE that replaces whole files. */
  def isRewritten(table: Table): Boolean = table match {
    case t: RowLevelOperationTable => !t.operation.isInstanceOf[SupportsDelta]
    case _ => false
  }
}
