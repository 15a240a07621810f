package org.apache.spark.sql.execution.dynamicfilters

import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.connector.write.{RowLevelOperationTable, SupportsDelta}
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex

/** Tables of DataSource V2, and listings of files. */
object TableAccess {

  // Protected in Scala, public in bytecode.
  private val leafFiles = classOf[PartitioningAwareFileIndex].getMethod("leafFiles")

  /** The object that holds the files of a listing; another one when it was refreshed. */
  def listing(files: PartitioningAwareFileIndex): AnyRef = leafFiles.invoke(files)

  /** Whether the table is read by MERGE, UPDATE or DELETE, in order to change it. */
  def isChanged(table: Table): Boolean = table.isInstanceOf[RowLevelOperationTable]

  /** Whether what is read of the table is written again: such an operation replaces whole files. */
  def isRewritten(table: Table): Boolean = table match {
    case t: RowLevelOperationTable => !t.operation.isInstanceOf[SupportsDelta]
    case _ => false
  }
}
