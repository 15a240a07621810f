"""Made from Settings.scala by `make texts`."""

TABLE = (
    ("enabled", bool, "true", "true or false", "Master switch. If false, no scan is filtered; conditions of user filters stay in the query."),
    ("topk.enabled", bool, "true", "true or false", "Whether ORDER BY ... LIMIT, also over GROUP BY, and limits by row_number(), rank(), dense_rank() make filters."),
    ("join.enabled", bool, "true", "true or false", "Whether joins make filters: of the keys of one side (build side), for scans of the other (probe side)."),
    ("aggregate.enabled", bool, "true", "true or false", "Whether min, max, min_by and max_by make filters."),
    ("subquery.enabled", bool, "true", "true or false", "Whether comparisons of a column with a scalar subquery make filters."),
    ("exchange.enabled", bool, "true", "true or false", "Whether executors share filters while a query runs. If false, a scan gets a join's filter only at its start."),
    ("lateMaterialization.enabled", bool, "true", "true or false", "Whether scans of Parquet read the filtered columns first, and other columns only for rows that pass."),
    ("join.waitTimeout", str, "10s", "a time with its unit, such as '10s' or '500ms'; '0s' is none", "Longest time that a scan waits for a join's filter before its tasks start; 0s: scans never wait."),
    ("join.maxBuildRows", int, "2000000", "a whole number from 1 to 2147483647", "If a build side has more distinct keys, its filter is only their range: the least and the greatest."),
    ("in.maxValues", int, "10000", "a whole number from 0 to 2147483647", "Largest number of keys that a join's filter keeps as a list. More become a bitmap or a Bloom filter."),
    ("bloom.fpp", float, "0.01", "a number between 0 and 1, both exclusive", "False positive rate of Bloom filters of joins."),
    ("maxFilterBytes", str, "8m", "a size such as '8m' or '512k', or a number of bytes; at least 1 byte", "Largest size of a join's filter. A larger one is replaced by a smaller, less exact form."),
    ("topk.maxLimit", int, "100000", "a whole number from 0 to 2147483647", "Largest LIMIT, OFFSET included, that has a filter; also the largest limit by rank."),
    ("selectivity.giveUp", float, "0.6", "a number from 0 to 1", "If more than this share of rows passes a filter, it no longer tests single rows; 1: it always does."),
    ("report.retainedQueries", int, "100", "a whole number from 1 to 2147483647", "How many queries with a filter the report keeps, and as many without."),
    ("report.showValues", bool, "true", "true or false", "Whether reports, plans and logs show values that filters took from the data."),
)
