package org.dynamicfilters.scan

import org.apache.spark.sql.catalyst.FileSourceOptions

/** If corrupt files are ignored, stock Spark drops all rows of a file after the first unreadable one. Skipping data
  * could hide that row and so add rows, so nothing inside files is skipped then.
  *
  * Checked when a scan is planned and again when its reader is made, because the setting may have changed in between.
  */
object CorruptFiles {

  /** @param options
    *   options of the relation, which override the session's settings
    */
  def areIgnored(options: Map[String, String]): Boolean = new FileSourceOptions(options).ignoreCorruptFiles
}
