package org.apache.spark.sql.execution.dynamicfilters

import scala.util.Try

import org.apache.parquet.filter2.predicate.{FilterApi, FilterPredicate}
import org.apache.parquet.hadoop.metadata.FileMetaData
import org.apache.spark.sql.execution.datasources.{DataSourceUtils, HadoopFsRelation}
import org.apache.spark.sql.execution.datasources.parquet.{ParquetFilters, ParquetOptions}
import org.apache.spark.sql.sources.Filter

/** The predicate that Spark's Parquet reader has of a query's own filters, as `ParquetFileFormat` makes it. */
object ParquetPredicates {

  /** @return
    *   by a file's metadata: None if nothing is pushed down, or this Spark makes predicates in another way
    */
  def of(relation: HadoopFsRelation, filters: Seq[Filter]): FileMetaData => Option[FilterPredicate] = {
    val conf = relation.sparkSession.sessionState.conf
    val rebase = new ParquetOptions(relation.options, conf).datetimeRebaseModeInRead
    file =>
      if (!conf.parquetFilterPushDown || filters.isEmpty) None
      else
        Try {
          val spec = DataSourceUtils.datetimeRebaseSpec(file.getKeyValueMetaData.get, rebase)
          val arguments = Seq[Any](
            file.getSchema,
            conf.parquetFilterPushDownDate,
            conf.parquetFilterPushDownTimestamp,
            conf.parquetFilterPushDownDecimal,
            conf.parquetFilterPushDownStringPredicate,
            conf.parquetFilterPushDownInFilterThreshold,
            conf.caseSensitiveAnalysis,
            spec
          ).map(_.asInstanceOf[AnyRef])
          // By reflection: Spark 4.3 takes an Option more.
          val constructor = classOf[ParquetFilters].getConstructors.head
          val all = arguments.padTo(constructor.getParameterCount, None)
          val made = constructor.newInstance(all: _*).asInstanceOf[ParquetFilters]
          filters.flatMap(made.createFilter(_)).reduceOption(FilterApi.and(_, _))
        }.toOption.flatten
  }
}
