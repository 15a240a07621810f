package org.dynamicfilters.filter

/** `traverse` for Either, which Scala's library lacks. */
private[dynamicfilters] object Traverse {

  /** All results in order, or the first Left. */
  def apply[E, A, B](xs: Seq[A])(f: A => Either[E, B]): Either[E, Seq[B]] =
    xs.foldLeft[Either[E, Vector[B]]](Right(Vector.empty))((done, x) => done.flatMap(bs => f(x).map(bs :+ _)))
}
