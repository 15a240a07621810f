package org.dynamicfilters.report

/** Marks the relations of the report's own table functions: a query over a report leaves no rows in it. */
trait ReportRows
