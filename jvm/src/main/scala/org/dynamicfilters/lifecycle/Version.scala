package org.dynamicfilters.lifecycle

import scala.io.Source
import scala.util.Using

object Version {

  /** As in the file VERSION of the project. */
  lazy val current: String =
    Using(Source.fromInputStream(getClass.getResourceAsStream("/org/dynamicfilters/version.txt"), "UTF-8"))(
      _.mkString.trim
    )
      .getOrElse("unknown")

  /** Of the table functions and messages that clients rely on; raised when they change incompatibly. */
  val protocol = 1
}
