package org.dynamicfilters.lifecycle

import scala.io.Source
import scala.util.Using

/** Versions that `dynamic_filters_status()` reports. */
object Version {

  /** The content of the project's file VERSION. */
  lazy val current: String =
    Using(Source.fromInputStream(getClass.getResourceAsStream("/org/dynamicfilters/version.txt"), "UTF-8"))(
      _.mkString.trim
    )
      .getOrElse("unknown")

  /** Version of the table functions and messages that clients rely on. Raised by incompatible changes. */
  val protocol = 1
}
