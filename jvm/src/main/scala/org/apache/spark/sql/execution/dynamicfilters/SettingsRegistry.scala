package org.apache.spark.sql.execution.dynamicfilters

import org.apache.spark.internal.config.{ConfigBuilder, ConfigEntry}
import org.apache.spark.network.util.ByteUnit
import org.apache.spark.sql.internal.SQLConf

/** One setting; wraps Spark's own entry, whose type is private to Spark. */
final class Setting[T] private[dynamicfilters] (entry: ConfigEntry[T]) {
  def key: String = entry.key
  def default: String = entry.defaultValueString
  def doc: String = entry.doc
  def read(conf: SQLConf): T = conf.getConf(entry)
}

/** Registers settings with Spark, which then checks them when they are set and lists them in `SET -v`. */
object SettingsRegistry {
  private val Since = "0.1.0"
  private val keys = java.util.concurrent.ConcurrentHashMap.newKeySet[String]()

  private def build(key: String): ConfigBuilder = {
    keys.add(key)
    SQLConf.buildConf(key).version(Since)
  }

  private def static(key: String): ConfigBuilder = {
    keys.add(key)
    SQLConf.buildStaticConf(key).version(Since)
  }

  def isRegistered(key: String): Boolean = keys.contains(key)

  def boolean(key: String, default: Boolean, doc: String): Setting[Boolean] =
    new Setting(build(key).doc(doc).booleanConf.createWithDefault(default))

  /** Of the application: Spark refuses to change it in a session. */
  def staticBoolean(key: String, default: Boolean, doc: String): Setting[Boolean] =
    new Setting(static(key).doc(doc).internal().booleanConf.createWithDefault(default))

  /** @param check
    *   returns the text, or throws with what is wrong with it
    */
  def string(key: String, default: String, doc: String)(check: String => String): Setting[String] =
    new Setting(
      build(key).doc(doc).internal().stringConf.transform(check).createWithDefault(default)
    )

  def int(key: String, default: Int, doc: String, takes: String)(valid: Int => Boolean): Setting[Int] =
    new Setting(
      build(key).doc(doc).intConf.checkValue(valid, takes).createWithDefault(default)
    )

  def double(key: String, default: Double, doc: String, takes: String)(valid: Double => Boolean): Setting[Double] =
    new Setting(
      build(key).doc(doc).doubleConf.checkValue(valid, takes).createWithDefault(default)
    )

  /** Milliseconds; set as "10s", "500ms". */
  def millis(key: String, default: String, doc: String): Setting[Long] =
    new Setting(
      build(key)
        .doc(doc)
        .timeConf(java.util.concurrent.TimeUnit.MILLISECONDS)
        .checkValue(_ >= 0, "a time of at least 0s, as 10s or 500ms")
        .createWithDefaultString(default)
    )

  /** Bytes; set as "8m", "512k". */
  def bytes(key: String, default: String, doc: String): Setting[Long] =
    new Setting(
      build(key)
        .doc(doc)
        .bytesConf(ByteUnit.BYTE)
        .checkValue(_ > 0, "a size of at least 1 byte, as 8m or 512k")
        .createWithDefaultString(default)
    )
}
