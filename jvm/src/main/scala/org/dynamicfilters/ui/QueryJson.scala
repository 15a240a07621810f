package org.dynamicfilters.ui

import scala.util.control.NonFatal

import com.fasterxml.jackson.annotation.{JsonIgnoreProperties, JsonSetter, Nulls}
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.spark.scheduler.SparkListenerEvent
import org.dynamicfilters.report.QueryEntry

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
    // The Scala module gives a missing or null field its default.
    .defaultSetterInfo(JsonSetter.Value.forContentNulls(Nulls.SKIP))
    .build()

  def event(query: QueryEntry): DynamicFiltersQueryEnd =
    DynamicFiltersQueryEnd(query.executionId, mapper.valueToTree[JsonNode](query))

  def text(query: JsonNode): String = mapper.writeValueAsString(query)

  /** @return None for what is no query */
  def read(text: String): Option[QueryEntry] =
    try Option(mapper.readValue(text, classOf[QueryEntry]))
    catch { case NonFatal(_) => None }
}
