package org.dynamicfilters.scan

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.datasources.HadoopFsRelation

/** Finds the root folders or files of a table, which identify it in [[StoredStatistics]]. */
object TableRoots {

  /** The table's own folder, if it is known. Spark's file index of a partitioned catalog table has only the queried
    * partitions' folders as roots, which differ between queries. For Hive tables, whose options lack the folder, it is
    * the common parent of the partition folders (`name=value`).
    *
    * @return
    *   URL-encoded URIs
    */
  def forRelation(relation: HadoopFsRelation, conf: Configuration): Seq[String] = {
    val roots = relation.location.rootPaths
    val named = relation.options.get("path").map(new Path(_)).map(p => p.getFileSystem(conf).makeQualified(p))
    def common = Option(roots.map(withoutValues).distinct).filter(_.size == 1).map(_.head)
    named
      .orElse(common)
      .filter(folder => roots.nonEmpty && roots.forall(isIn(_, folder)))
      .fold(roots)(Seq(_))
      .map(_.toUri.toString)
  }

  private def withoutValues(path: Path): Path =
    Iterator.iterate(path)(_.getParent).dropWhile(p => p.getParent != null && p.getName.indexOf('=') > 0).next()

  private def isIn(path: Path, folder: Path): Boolean =
    Iterator.iterate(path)(_.getParent).takeWhile(_ != null).contains(folder)
}
