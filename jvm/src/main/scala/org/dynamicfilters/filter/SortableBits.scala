package org.dynamicfilters.filter

/** Encodes floating point numbers as integers whose signed order is Spark's order of the numbers: -Infinity is the
  * least, -0.0 equals 0.0, and NaN (every bit pattern of it) is one value above +Infinity.
  *
  * The bits of positive numbers ascend with the numbers. Those of negative numbers descend, so all bits but the sign
  * are flipped.
  */
private[dynamicfilters] object SortableBits {

  /** The code of no number, between those of negative and positive numbers. It would be that of -0.0. */
  val unusedCode: Long = -1L

  // Adding 0.0 turns -0.0 into 0.0 and changes nothing else; doubleToLongBits (not ...Raw...) makes all NaNs equal.
  def ofDouble(x: Double): Long = flip(java.lang.Double.doubleToLongBits(x + 0.0d))

  def ofFloat(x: Float): Int = flip(java.lang.Float.floatToIntBits(x + 0.0f))

  def toDouble(code: Long): Double = java.lang.Double.longBitsToDouble(flip(code))

  def toFloat(code: Int): Float = java.lang.Float.intBitsToFloat(flip(code))

  private def flip(bits: Long): Long = bits ^ ((bits >> 63) & Long.MaxValue)

  private def flip(bits: Int): Int = bits ^ ((bits >> 31) & Int.MaxValue)
}
