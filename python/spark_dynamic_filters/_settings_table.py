"""Made from Settings.scala by `make texts`."""

TABLE = (
    ("enabled", bool, "true", "true or false", "Master switch; false gives exactly Spark's own plan."),
    ("topk.enabled", bool, "true", "true or false", "Whether ORDER BY ... LIMIT filters its scans."),
    ("join.enabled", bool, "true", "true or false", "Whether joins filter the scans of their probe side."),
    ("aggregate.enabled", bool, "true", "true or false", "Whether min/max aggregates filter their scans."),
    ("subquery.enabled", bool, "true", "true or false", "Whether values of scalar subqueries filter the scans of the columns they are compared with."),
    ("exchange.enabled", bool, "true", "true or false", "Whether executors share what they learn while a query runs; false: only what tasks of one process know."),
    ("lateMaterialization.enabled", bool, "true", "true or false", "Read filter columns first, the other columns only for surviving rows."),
    ("join.waitTimeout", str, "10s", "a time such as '10s' or '500ms'; '0s' is none", "Longest time a probe stage may be held back for its filter, without holding a task slot; 0s = never."),
    ("join.maxBuildRows", int, "2000000", "a whole number from 1 to 2147483647", "A build side with more distinct keys than this gives their range only."),
    ("in.maxValues", int, "10000", "a whole number from 0 to 2147483647", "Above it a value set becomes a bitmap (integers, dates) or a bloom filter."),
    ("bloom.fpp", float, "0.01", "a number between 0 and 1, both exclusive", "False positive rate aimed at."),
    ("maxFilterBytes", str, "8m", "a size such as '8m' or '512k', or a number of bytes; at least 1 byte", "A larger encoded filter is reduced to a smaller form, at last to its range."),
    ("topk.maxLimit", int, "100000", "a whole number from 0 to 2147483647", "Larger LIMITs (offset included) produce no filter."),
    ("selectivity.giveUp", float, "0.6", "a number from 0 to 1", "A filter that lets more than this share of rows pass stops being evaluated by rows; 1 = never."),
    ("report.retainedQueries", int, "100", "a whole number from 1 to 2147483647", "How many queries the report keeps."),
    ("report.showValues", bool, "true", "true or false", "false: no data values in reports, plans and logs."),
    ("stats.path", str, "", "an absolute path or URI of a directory, or nothing", "Directory where what was learned of files is kept between applications; empty = nowhere."),
)
