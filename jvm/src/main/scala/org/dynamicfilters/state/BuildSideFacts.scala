package org.dynamicfilters.state

/** What a join's filter asks of its build side only if somebody wants to know: each answer takes a walk through plans. On the
  * driver.
  */
trait BuildSideFacts {

  /** Of the canonical form of the whole build side: what joins within it leave out shows there, and not yet in its exchange. */
  def sideHash: Int

  /** What is known of the files of all tables that its keys come from, without a look at them: it changes when they do. None if
    * that is not known of one of them.
    */
  def tables: Option[Seq[Any]]

  /** What is known of the files of tables below the tap. Plans are equal that read the same folder, but a cached plan may have
    * listed it earlier than the query that reads the cache. And in what session they are read: that of a cached plan may have
    * another time zone for text files.
    */
  def listed: Seq[Any]

  /** Whether the build side has the same keys wherever it is run. */
  def repeats: Boolean
}

object BuildSideFacts {

  /** Of one that reads no table. */
  object WithoutTables extends BuildSideFacts {
    override def sideHash: Int = 0
    override def tables: Option[Seq[Any]] = Some(Nil)
    override def listed: Seq[Any] = Nil
    override def repeats: Boolean = true
  }
}
