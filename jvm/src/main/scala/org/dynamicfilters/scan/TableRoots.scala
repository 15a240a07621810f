package org.dynamicfilters.scan

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.datasources.HadoopFsRelation

/** Below which folders or files a table's files are. */
object TableRoots {

  /** The table's own folder where it has one. Spark's listing of a partitioned table in a catalog has the folders of those
    * partitions as its roots that a query reads: each set of them would be a table of its own. Of a table of Hive the folder is
    * not among the options: it is what folders have in common whose names are values of partition columns.
    *
    * @return
    *   URIs, encoded
    */
  def of(relation: HadoopFsRelation, conf: Configuration): Seq[String] = {
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
