package org.dynamicfilters.ui

import scala.util.control.NonFatal

import com.fasterxml.jackson.annotation.JsonIgnoreProperties
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.spark.scheduler.SparkListenerEvent
import org.dynamicfilters.report.{QueryEntry, RejectedEntry}

/** Event: an execution with a report of interest has ended. The History Server shows the query.
  *
  * Holds a JSON tree instead of classes, so that reading the log of another version never fails.
  *
  * @param query a [[QueryEntry]]
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

  /** @return None for what is no query
    */
  def read(text: String): Option[QueryEntry] =
    try Option(mapper.readValue(text, classOf[QueryEntry])).map(whole)
    catch { case NonFatal(_) => None }

  /** Replaces null by an empty value: Jackson leaves null in fields that another version did not write. */
  private def whole(q: QueryEntry): QueryEntry = q.copy(
    description = text(q.description),
    state = text(q.state),
    summary = text(q.summary),
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
