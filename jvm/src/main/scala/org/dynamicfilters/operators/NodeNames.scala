package org.dynamicfilters.operators

/** Names of operators with the ids of their filters: of an operator the graph in Spark's SQL tab shows little else. In no
  * comparison of plans, and not in plans as text, which tell the filters anyway.
  */
private[operators] object NodeNames {
  private val Most = 3

  def apply(name: String, filterIds: Seq[Long]): String = {
    val ids = filterIds.distinct
    val shown = ids.take(Most).map(id => s"DynamicFilter#$id").mkString(", ")
    if (ids.isEmpty) name else s"$name $shown${if (ids.size > Most) ", ..." else ""}"
  }
}
