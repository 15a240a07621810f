package org.apache.spark.sql.execution.dynamicfilters

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.datasources.HadoopFsRelation

/** With what Spark opens the files of a relation; the session's state is visible only inside of Spark's packages. */
object HadoopConfAccess {
  def of(relation: HadoopFsRelation): Configuration =
    relation.sparkSession.sessionState.newHadoopConfWithOptions(relation.options)
}
