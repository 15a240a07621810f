"""Made from Settings.scala by `make texts`."""

TABLE = (
    ("enabled", bool, "true", "true or false", "Master switch; false gives exactly Spark's own plan."),
    ("topk.enabled", bool, "true", "true or false", "Whether ORDER BY ... LIMIT, rank limits and sorted groups filter their scans."),
    ("join.enabled", bool, "true", "true or false", "Whether joins filter the scans of their probe side."),
    ("aggregate.enabled", bool, "true", "true or false", "Whether min, max, min_by and max_by filter their scans."),
    ("subquery.enabled", bool, "true", "true or false", "Whether values of scalar subqueries filter the scans of the columns they are compared with."),
    ("exchange.enabled", bool, "true", "true or false", "Whether executors share filters while a query runs; false: a process uses only what its own tasks learned."),
    ("lateMaterialization.enabled", bool, "true", "true or false", "Read filter columns first, the other columns only for surviving rows."),
    ("join.waitTimeout", str, "10s", "a time with its unit, such as '10s' or '500ms'; '0s' is none", "Longest time that a scan is held back for a join's filter, without holding a task slot; 0s = never."),
    ("join.maxBuildRows", int, "2000000", "a whole number from 1 to 2147483647", "A build side with more different keys gives their range only."),
    ("in.maxValues", int, "10000", "a whole number from 0 to 2147483647", "More values than this become a bitmap (integers, dates) or a Bloom filter."),
    ("bloom.fpp", float, "0.01", "a number between 0 and 1, both exclusive", "False positive rate of Bloom filters of joins."),
    ("maxFilterBytes", str, "8m", "a size such as '8m' or '512k', or a number of bytes; at least 1 byte", "A larger filter is reduced to a smaller form, at last to its range."),
    ("topk.maxLimit", int, "100000", "a whole number from 0 to 2147483647", "Larger LIMITs (offset included) produce no filter."),
    ("selectivity.giveUp", float, "0.6", "a number from 0 to 1", "A filter stops testing single rows if more than this share of them passes; 1 = never."),
    ("report.retainedQueries", int, "100", "a whole number from 1 to 2147483647", "How many queries the report keeps."),
    ("report.showValues", bool, "true", "true or false", "false: reports, plans and logs show no data values."),
    ("stats.path", str, "", "an absolute path or URI of a directory, or nothing", "Directory that keeps the learned statistics of files between applications; empty = none."),
)
