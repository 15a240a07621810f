package org.dynamicfilters.scan

import org.apache.hadoop.fs.FileStatus
import org.apache.spark.sql.execution.datasources.PartitionedFile

/** By what a file is told from another one that was written to the same path later.
  *
  * @param length
  *   bytes
  * @param modified
  *   modification time, milliseconds since 1970
  */
final case class FileIdentity(length: Long, modified: Long)

object FileIdentity {
  def of(status: FileStatus): FileIdentity = FileIdentity(status.getLen, status.getModificationTime)

  /** What the query's listing says of the file. A listing may be old: a view and a cached table keep theirs. */
  def listed(file: PartitionedFile): FileIdentity = FileIdentity(file.fileSize, file.modificationTime)
}
