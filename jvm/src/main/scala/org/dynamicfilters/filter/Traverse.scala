package org.dynamicfilters.filter

/** Asks the same of several keys. */
private[dynamicfilters] object Traverse {

  /** The answers in the order of the keys, or the first reason why one has none. */
  def apply[A, B](xs: Seq[A])(f: A => Either[String, B]): Either[String, Seq[B]] =
    xs.foldLeft[Either[String, Vector[B]]](Right(Vector.empty))((done, x) => done.flatMap(bs => f(x).map(bs :+ _)))
}
