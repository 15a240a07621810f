package org.dynamicfilters.ui

import scala.util.control.NonFatal

import com.fasterxml.jackson.annotation.JsonIgnoreProperties
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.spark.scheduler.SparkListenerEvent

/** An execution that had anything to do with dynamic filters has ended: what the History Server shows of it.
  *
  * A tree rather than classes: reading a log never fails on what another version wrote there.
  *
  * @param query
  *   a [[QueryEntry]]
  */
@JsonIgnoreProperties(ignoreUnknown = true)
final case class DynamicFiltersQueryEnd(executionId: Long, query: JsonNode) extends SparkListenerEvent

/** [[QueryEntry]] as JSON, written and read as Spark does with its events. */
object QueryJson {
  private val mapper: ObjectMapper = JsonMapper
    .builder()
    .addModule(DefaultScalaModule)
    .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false)
    .build()

  def event(query: QueryEntry): DynamicFiltersQueryEnd =
    DynamicFiltersQueryEnd(query.executionId, mapper.valueToTree[JsonNode](query))

  def text(query: JsonNode): String = mapper.writeValueAsString(query)

  /** @return
    *   None for what is no query
    */
  def read(text: String): Option[QueryEntry] =
    try Option(mapper.readValue(text, classOf[QueryEntry])).map(whole)
    catch { case NonFatal(_) => None }

  /** What another version left out is null. */
  private def whole(q: QueryEntry): QueryEntry = q.copy(
    description = text(q.description),
    state = text(q.state),
    filters = all(q.filters).map { f =>
      f.copy(
        id = text(f.id),
        producer = text(f.producer),
        columns = all(f.columns),
        state = text(f.state),
        form = text(f.form),
        expression = text(f.expression),
        reason = text(f.reason)
      )
    },
    scans = all(q.scans).map { s =>
      s.copy(
        id = text(s.id),
        table = text(s.table),
        format = text(s.format),
        filters = all(s.filters),
        levels = all(s.levels).filter(_.name != null),
        skippedBy = all(s.skippedBy).filter(_.name != null),
        reasons = all(s.reasons).filter(_.name != null)
      )
    },
    rejected = all(q.rejected).map(r => RejectedEntry(text(r.producer), all(r.columns), text(r.reason)))
  )

  private def text(s: String): String = if (s == null) "" else s
  private def all[A](s: Seq[A]): Seq[A] = if (s == null) Nil else s.filter(_ != null)
}
