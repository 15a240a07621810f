package org.dynamicfilters.scan

import org.apache.spark.sql.catalyst.FileSourceOptions

/** Where corrupt files are ignored, stock Spark returns no row that comes after one that cannot be read. Which these are depends
  * on the order, and on whether that row is met at all, so nothing within such files may be skipped.
  *
  * To be asked when a scan is planned, and again when its reader is made: the plan may be older than the setting.
  */
object CorruptFiles {
  val Ignored = "corrupt files are ignored: which of their rows are read depends on what is skipped"

  /** @param options
    *   of the relation; what they leave open is the session's
    */
  def areIgnored(options: Map[String, String]): Boolean = new FileSourceOptions(options).ignoreCorruptFiles
}
