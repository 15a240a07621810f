package org.dynamicfilters.filter

/** `traverse` for Either, which Scala's library lacks. */
private[dynamicfilters] object Traverse {

  /** All results in order, or the first Left. */
  def apply[A, B](xs: Seq[A])(f: A => Either[String, B]): Either[String, Seq[B]] =
    xs.foldLeft[Either[String, Vector[B]]](Right(Vector.empty))((done, x) => done.flatMap(bs => f(x).map(bs :+ _)))
}
