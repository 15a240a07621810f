package org.apache.spark.sql.execution.dynamicfilters

import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.internal.config.{ConfigBuilder, ConfigEntry, TypedConfigBuilder}
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.internal.SQLConf

/** One setting, with the values that it takes in words. Wraps Spark's own entry, whose type is private to Spark. */
final class Setting[T] private[dynamicfilters] (entry: ConfigEntry[T], val takes: String) {
  def key: String = entry.key
  def default: String = entry.defaultValueString
  def doc: String = entry.doc
  def read(conf: SQLConf): T = conf.getConf(entry)

  /** Throws [[UserError]] if the text is no value of it. */
  def check(text: String): Unit = entry.valueConverter(text)
}

/** Registers settings with Spark, which then checks them when they are set and lists them in `SET -v`.
  *
  * Values are read here and not by Spark, so that a bad one is the same [[UserError]] wherever it is set.
  */
object SettingsRegistry {
  private val Since = "0.1.0"
  private val keys = java.util.concurrent.ConcurrentHashMap.newKeySet[String]()

  private[dynamicfilters] def build(key: String): ConfigBuilder = {
    keys.add(key)
    SQLConf.buildConf(key).version(Since)
  }

  private def static(key: String): ConfigBuilder = {
    keys.add(key)
    SQLConf.buildStaticConf(key).version(Since)
  }

  def isRegistered(key: String): Boolean = keys.contains(key)

  /** The keys that are set in a session, registered or not, for which `isWanted` holds. */
  def keysSet(conf: SQLConf)(isWanted: String => Boolean): Seq[String] =
    conf.settings.synchronized(conf.settings.keySet.asScala.filter(isWanted).toVector)

  /** The error for a value that a setting does not take. */
  def invalid(key: String, value: String, takes: String): UserError =
    new UserError("DYNAMIC_FILTER_INVALID_SETTING", s"$key: cannot be '${UserError.shown(value)}'; it takes $takes")

  /** @param read returns None, or fails, for a text that is no value */
  private def setting[T](
      builder: ConfigBuilder,
      takes: String,
      default: String,
      show: Any => String = _.toString
  )(
      read: String => Option[T]
  ): Setting[T] = {
    def value(text: String): T =
      Try(read(text.trim)).toOption.flatten.getOrElse(throw invalid(builder.key, text, takes))
    val typed = new TypedConfigBuilder[T](builder, value(_), show)
    new Setting(typed.createWithDefaultString(default), takes)
  }

  def boolean(key: String, default: Boolean, doc: String): Setting[Boolean] =
    setting(build(key).doc(doc), "true or false", default.toString)(_.toBooleanOption)

  /** Of the application: Spark refuses to change it in a session. */
  def staticBoolean(key: String, default: Boolean, doc: String): Setting[Boolean] =
    setting(static(key).doc(doc).internal(), "true or false", default.toString)(_.toBooleanOption)

  def int(key: String, default: Int, doc: String, takes: String)(valid: Int => Boolean): Setting[Int] =
    setting(build(key).doc(doc), takes, default.toString)(_.toIntOption.filter(valid))

  def double(key: String, default: Double, doc: String, takes: String)(valid: Double => Boolean): Setting[Double] =
    setting(build(key).doc(doc), takes, default.toString)(_.toDoubleOption.filter(valid))

  /** Milliseconds of at least 0; set as "10s", "500ms". A number without a unit is refused: Spark has settings that
    * take it for seconds and settings that take it for milliseconds.
    */
  def millis(key: String, default: String, doc: String): Setting[Long] = {
    val takes = "a time with its unit, such as '10s' or '500ms'; '0s' is none"
    setting(build(key).doc(doc), takes, default, v => s"${v}ms") { text =>
      Some(JavaUtils.timeStringAs(text, TimeUnit.MILLISECONDS)).filter(_ >= 0 && text.last.isLetter)
    }
  }

  /** Bytes, at least 1; set as "8m", "512k". */
  def bytes(key: String, default: String, doc: String): Setting[Long] =
    setting(build(key).doc(doc), "a size such as '8m' or '512k', or a number of bytes; at least 1 byte", default) {
      text => Some(JavaUtils.byteStringAsBytes(text)).filter(_ >= 1)
    }
}
