package org.dynamicfilters.scan

import org.apache.hadoop.conf.Configuration
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.sources.Filter
import org.apache.spark.util.SerializableConfiguration

/** What Spark makes the Parquet reader of a scan with.
  *
  * @param pushedDown
  *   the query's own predicates, as the reader gets them
  * @param conf
  *   with which it opens files. Not to be written into: it says which columns are read, and in local mode tasks have this object
  * @param sent
  *   the same as it goes to the tasks, if the reader shows it
  */
final case class ReaderSetup(
    pushedDown: Seq[Filter],
    conf: Configuration,
    sent: Option[Broadcast[SerializableConfiguration]]
)
