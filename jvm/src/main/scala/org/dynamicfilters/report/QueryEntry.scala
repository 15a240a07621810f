package org.dynamicfilters.report

/** One SQL execution as the summary and the UI show it, from memory or from an event log.
  *
  * Times are milliseconds since 1970; 0 if unknown. Fields may be added but never removed, so that a History Server reads the logs
  * of other versions. Numbers in collections are wrapped in classes, because Jackson does not see a Scala collection's type.
  *
  * @param executionId Spark's
  * @param description as Spark's own SQL tab shows it
  * @param state running, finished or failed
  * @param leftOut filters, scans and rejected producers beyond [[QueryEntry.MostFilters]] and the like
  * @param summary one sentence, "" if unknown
  */
final case class QueryEntry(
    executionId: Long,
    description: String = "",
    state: String = "",
    started: Long = 0,
    ended: Long = 0,
    filters: Seq[FilterEntry] = Nil,
    scans: Seq[ScanEntry] = Nil,
    rejected: Seq[RejectedEntry] = Nil,
    leftOut: Long = 0,
    summary: String = ""
) {

  /** Duration in milliseconds, until `now` for a running query. None if its start is unknown. */
  def duration(now: Long): Option[Long] =
    Option.when(started > 0)(math.max(0L, (if (ended > 0) ended else now) - started))

  def filtersInForce: Int = filters.count(_.inForce)

  /** Sums over the scans that have this level. */
  def skipped(level: String): LevelEntry = {
    val known = scans.flatMap(_.levels.find(_.name == level))
    LevelEntry(level, known.map(_.skipped).sum, known.map(_.total).sum)
  }
}

object QueryEntry {

  /** Limits of one query's entry. */
  val MostFilters, MostScans, MostRejected = 100
  val MostColumns, MostReasons = 16
  val LongestText = 400

  def bounded(text: String, most: Int = LongestText): String =
    if (text == null) "" else if (text.length <= most) text else text.take(most - 3) + "..."
}

/** @param id as in plans, without `DynamicFilter#`
  * @param expression the condition, or that it is hidden
  * @param reason "" if there is nothing to explain
  * @param waited milliseconds that a scan was held back for it
  */
final case class FilterEntry(
    id: String = "",
    producer: String = "",
    columns: Seq[String] = Nil,
    state: String = "",
    form: String = "",
    expression: String = "",
    generation: Long = 0,
    bytes: Long = 0,
    reason: String = "",
    registered: Long = 0,
    ready: Long = 0,
    used: Long = 0,
    waited: Long = 0
) {
  def inForce: Boolean = state == "ready" && generation > 0
  def name: String = s"DynamicFilter#$id"
}

/** @param filters their ids
  * @param levels what was skipped, from coarse to fine, without unknown levels
  * @param skippedBy skipped row groups, by the step that excluded them
  * @param reasons the number of fall-backs by reason
  */
final case class ScanEntry(
    id: String = "",
    table: String = "",
    format: String = "",
    filters: Seq[String] = Nil,
    levels: Seq[LevelEntry] = Nil,
    rowsOutput: Long = 0,
    filesUnopened: Long = 0,
    skippedBy: Seq[CountEntry] = Nil,
    reasons: Seq[CountEntry] = Nil
)

/** How much of a scan was skipped.
  *
  * @param name one of those below
  */
final case class LevelEntry(name: String = "", skipped: Long = 0, total: Long = 0) {
  def read: Long = total - skipped
}

object LevelEntry {
  val Files = "files"
  val RowGroups = "row groups"
  val PageRows = "rows by pages"
  val Rows = "rows"
  val Bytes = "bytes"
}

final case class CountEntry(name: String = "", count: Long = 0)

/** A producer that the planner considered and rejected. */
final case class RejectedEntry(producer: String = "", columns: Seq[String] = Nil, reason: String = "")
