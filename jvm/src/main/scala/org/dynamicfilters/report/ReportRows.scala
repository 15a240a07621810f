package org.dynamicfilters.report

/** Marks the relations of our table functions. A query over such a relation gets no report. */
trait ReportRows
