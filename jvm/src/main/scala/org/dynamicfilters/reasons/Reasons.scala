package org.dynamicfilters.reasons

/** Why a filter was rejected, disabled or reduced, or why a scan fell back.
  *
  * @param code stays the same when the text changes; the part before the dot names a table of docs/troubleshooting.md
  * @param advice what the user can do; begins with "nothing" if there is nothing to do
  */
final case class Reason(code: String, text: String, advice: String) {
  override def toString: String = text

  /** Whether code of the plugin failed. The query ran without what failed. */
  def isFailure: Boolean = code.startsWith("failure.")
}

/** All reasons, one line each. `make texts` makes the tables of docs/troubleshooting.md from them. */
object Reasons {
  // format: off

  // Between a filter and its scan.
  def Operator(name: String) = Reason("path.operator", s"the operator $name is in the way", "sort, limit or join in a subquery below it, if the result stays the same; for an operator of your own see extending.md")
  def Blocking(operator: String) = Reason("path.blocking", s"the operator $operator is in the way: it reads all its input before the bound is known", "sort and limit in a subquery below it, if the result stays the same")
  val OfGroups = Reason("path.aggregate", "the key is a result of an aggregate: groups have no statistics", "nothing: a group's result is known after its last row only; `GROUP BY k ORDER BY k LIMIT n` has a filter")
  private val meant = "a filter below it would change its result: if you can, put the sample, LIMIT or `observe` after the TopK or join"
  val Sample = Reason("path.sample", "a sample is in the way", meant)
  val Limit = Reason("path.limit", "a limit is in the way", meant)
  val Metrics = Reason("path.metrics", "observed metrics are in the way", meant)
  private val restricted = "write a WHERE condition on the tables below it yourself"
  val AsOfJoin = Reason("path.asOfJoin", "an as-of join is in the way", restricted)
  val CartesianProduct = Reason("path.product", "a cartesian product is in the way", restricted)
  val Recursion = Reason("path.recursion", "a recursive table expression is in the way", restricted)
  private val rows = "sort, limit or join in a subquery below it, or use `udf` or `pandas_udf`, which let filters pass"
  val PartitionFunction = Reason("path.partitions", "a function on whole partitions (such as mapInPandas) is in the way", rows)
  val GroupFunction = Reason("path.groups", "a function on whole groups (such as applyInPandas) is in the way", rows)
  val Script = Reason("path.script", "a script (SELECT TRANSFORM) is in the way", rows)
  val TableFunction = Reason("path.tableFunction", "a Python table function is in the way", "sort, limit or join in a subquery below it, or use `explode` of an array that a `udf` returns, which lets filters pass")
  val TypedRows = Reason("path.typedRows", "a function on Dataset objects (such as Dataset.map) is in the way", "use column expressions instead, or call the function after the TopK or join")
  val Numbering = Reason("path.numbering", "the row numbers of the pandas API on Spark are in the way", "name a column as the index when you read the table: `index_col=`")
  private val ownStage = "this TopK, min or max could filter the scan if no shuffle lay between: broadcast the small table of the join below (`/*+ BROADCAST(t) */`), or remove `repartition`"
  val OtherStage = Reason("path.stage", "an exchange is in the way: the scan below is done before the bound is known", ownStage)
  def ShuffledJoin(operator: String) = Reason("path.shuffledJoin", s"a shuffled join ($operator) is in the way: the scan below is done before the bound is known", ownStage)
  val UsedTwice = Reason("path.usedTwice", "an exchange that another part of the query uses too is in the way", "usually nothing; if a join needs only rows of it with one value in a column, add `column = value` to that join's part of the query: Spark may then run an exchange of its own for it, with a filter")
  private val written = "write the join's result to a table first, and compute random numbers, row ids, samples and functions on whole partitions from that table"
  val ShowsPartitions = Reason("path.partitionsShow", "an exchange is in the way, and the result depends on the partition of each row", written)
  val ShowsOrder = Reason("path.orderShows", "an aggregate is in the way, and the result depends on the order of its groups", written)
  private val group = "add the filter's column to GROUP BY or PARTITION BY, if the result stays the same"
  val GroupsByOther = Reason("path.groupBy", "an aggregate that does not group by the filter's column is in the way", group)
  val WindowByOther = Reason("path.partitionBy", "a window that is not partitioned by the filter's column is in the way", group)
  def Generator(name: String) = Reason("path.generator", s"the generator $name is in the way", "use `explode`, `posexplode`, `inline` or `stack`, which let filters pass")
  def NonDeterministic(operator: String) = Reason("path.random", s"a non-deterministic $operator is in the way", "remove `rand()`, `uuid()` and the like, or compute them after the TopK or join")
  val RandomCondition = Reason("path.randomCondition", "another condition of the same WHERE is non-deterministic", "move the condition with the random number into an outer query")
  val RandomPython = Reason("path.randomPython", "a Python function that is not deterministic is in the way", "remove `asNondeterministic()`, if the function is deterministic")
  val IteratorFunction = Reason("path.batches", "a Python function over an iterator of batches is in the way", "use a function that takes one batch at a time, or call it after the TopK or join")
  val UnionTypes = Reason("path.unionTypes", "the branches of the union differ in type", "cast the other branches to the type that the column has in the filtered table")
  def OtherJoin(join: String) = Reason("path.join", s"$join is in the way", "nothing: with fewer rows on this side the join's result would change")
  def BroadcastSide(column: String) = Reason("path.broadcast", s"$column comes from the build side of a broadcast join", "TopK, min and max filter only the side that Spark does not broadcast: if the broadcast side is the larger one, remove its BROADCAST hint")
  private val ofOne = "use a key that is a column of one table"
  def BothSides(column: String) = Reason("path.bothSides", s"$column comes from both sides of a join", ofOne)
  def MadeBy(column: String, operator: String) = Reason("path.madeBy", s"$column is made by $operator", ofOne)
  private val plain = "use a column of the table as the key: store the computed value as a column"
  def Computed(column: String, expression: String) = Reason("path.computed", s"$column is computed: $expression", plain)
  def ComputedByPython(column: String) = Reason("path.computedByPython", s"$column is computed by a Python function", plain)
  val SortKeyComputed = Reason("path.sortKey", "the sort key is computed", plain)
  def MayFail(expression: String) = Reason("path.mayFail", s"$expression may fail if a filter removes rows of a join or group below it", "compute it after the join that makes the filter, or write it so that it cannot fail: `try_divide`, `nullif(n, 0)`, `CASE WHEN n <> 0`, sums of `DECIMAL` of up to 28 digits")
  def Rollup(column: String) = Reason("path.rollup", s"$column is missing in some of the groups that ROLLUP, CUBE or GROUPING SETS make", "if you need no totals over all keys, group by the key outside of them: `GROUP BY k, ROLLUP(a, b)`")

  // TopKs and limits.
  val NoLimit = Reason("topk.zero", "the limit is 0", "nothing: no row is asked for")
  def LimitAbove(limit: Int, setting: String, value: Int) = Reason("topk.limit", s"the limit $limit is above $setting=$value", "raise the setting; each task may keep that many sort keys in memory")
  val LimitByGroup = Reason("topk.groups", "a limit in each group needs a bound for each group", "nothing: `rank() OVER (PARTITION BY ...)` has no filter")
  val FewRows = Reason("topk.fewRows", "fewer rows than the limit were seen", "nothing: all rows are needed")
  val NotRead = Reason("topk.notRead", "the input was not read in this query", "nothing: Spark kept the shuffle files of an earlier run, or there was nothing to read")
  val OtherTopK = Reason("topk.other", "the scan is filtered by another TopK already", "nothing: a scan takes the filter of one TopK")
  val ScanInOrder = Reason("topk.order", "the query relies on the order of the scan's rows", "nothing: Spark uses the order of a bucketed, sorted table, and the filter of a TopK would change the order")
  private val repeat = "remove random functions, samples and limits from the input, or write it to a table first: a retried task must read the same rows"
  val OtherRows = Reason("topk.otherRows", "a retried task may read other rows", repeat)
  def Random(operator: String) = Reason("topk.random", s"the input is not deterministic ($operator)", repeat)
  def MayDiffer(name: String) = Reason("topk.mayDiffer", s"the operator $name is not known to give the same rows again", "write its result to a table first")
  val FollowsUpdates = Reason("topk.follows", "an update of a user filter (prunes) may change the scan's rows while the query runs", "use `matches` instead of `prunes`")

  // Min and max.
  val ExtremesByGroup = Reason("aggregate.groups", "min and max of each group need a bound for each group", "if the first groups are enough, use `GROUP BY k ORDER BY k LIMIT n`, which has a filter")
  def NeedsEveryRow(function: String) = Reason("aggregate.allRows", s"$function needs every row", "compute `min`, `max`, `min_by` and `max_by` in a query of their own")
  def HasFilter(function: String) = Reason("aggregate.filter", s"$function has a FILTER clause", "compute it in a query of its own, with the condition in WHERE")
  def IsDistinct(function: String) = Reason("aggregate.distinct", s"$function is DISTINCT", "remove DISTINCT: the result is the same")
  def ManyBounds(limit: Int) = Reason("aggregate.bounds", s"min and max need more than $limit bounds, which are expected to exclude hardly any row", "split the query, or give the hint `DYNAMIC_FILTER`")
  val NoValue = Reason("aggregate.noValue", "no value was seen", "nothing: all were NULL, or there was no row")

  // Joins.
  val NoEqualKeys = Reason("join.noEqualKeys", "the join has no equal keys", "join by equal columns, or let Spark broadcast the side with the ranges: a filter is made of `a.x = b.y`, or of numbers and times compared as in `a.x >= b.lo` with a broadcast side")
  def KeyTypes(a: String, b: String) = Reason("join.types", s"filters cannot compare join keys of types $a and $b", "give both columns the same type")
  def NeedsAllRows(join: String, sides: String) = Reason("join.allRows", s"$join needs every row of $sides", "nothing: the join's result has all these rows")
  val NotIn = Reason("join.notIn", "NOT IN needs every row: one NULL in the subquery empties the whole result", "use `NOT EXISTS`, if NULLs do not matter")
  private val hint = "if the estimate is wrong, give the hint `DYNAMIC_FILTER` (see hints.md), or run `ANALYZE TABLE`"
  val NotSmaller = Reason("join.notSmaller", "the build side is expected to have more rows than the probe side", hint)
  def NotSelective(limit: Long) = Reason("join.notSelective", s"the build side is expected to have more than $limit rows, and no condition reduces them", hint)
  def UnknownJoin(name: String) = Reason("join.unknown", s"the join operator $name makes no filters", "nothing: only BroadcastHashJoin, BroadcastNestedLoopJoin, ShuffledHashJoin and SortMergeJoin make filters")
  def BuildSide(reason: Reason) = Reason("join.buildSide", s"the build side: $reason", reason.advice)
  private val tableKey = "use a column of a table as the key"
  def NoExchange(operator: String) = Reason("join.noExchange", s"the build side has no exchange at which its keys can be collected ($operator)", "broadcast the build side if it is small (`/*+ BROADCAST(t) */`), or write its rows to a table that is not bucketed")
  def KeyComputed(expression: String) = Reason("join.computed", s"the build key is computed above the build side's exchange: $expression", tableKey)
  val KeyOfJoin = Reason("join.madeByJoin", "the build key is made by a join", tableKey)
  val KeyHasSubquery = Reason("join.subquery", "the build key contains a subquery", tableKey)
  private val toTable = "write the build side to a table first"
  val RandomKey = Reason("join.randomKey", "the build key is not deterministic", toTable)
  val RandomBuildSide = Reason("join.random", "the build side is not deterministic: a retried task gives other rows", toTable)
  val KeyCallsFunction = Reason("join.keyCost", "the build key calls a user-defined function", "store its result as a column: the filter would call the function once more for each row")
  val ValuesByOrder = Reason("join.valuesByOrder", "an aggregate's values depend on the order of its rows", "use DECIMAL, or write the aggregate's result to a table: a retried task may add floating point numbers in another order")
  private val ended = "nothing: the other side was empty, the query failed, Spark changed the plan, or Spark lost an executor"
  val BuildDidNotRun = Reason("join.notRun", "the build side did not run", ended)
  val BuildDidNotFinish = Reason("join.notFinished", "the build side did not finish", ended)
  val Incomplete = Reason("join.incomplete", "the keys of some partitions of the build side did not reach the driver", ended)
  val QueryEnded = Reason("join.ended", "the query ended", ended)
  private val adaptive = "nothing: adaptive execution changed the plan while the query ran"
  val RunsAlready = Reason("join.runs", "the probe side runs already", adaptive)
  val RanWithoutTap = Reason("join.untapped", "the build side's exchange has run without collecting this key", adaptive)
  val PlannedAway = Reason("join.plannedAway", "adaptive execution removed the build side from the plan", adaptive)
  def PlannedAnew(reason: Reason) = Reason("join.plannedAnew", s"in a new plan of adaptive execution: $reason", adaptive)
  val MovedLater = Reason("join.moved", "in a new plan of adaptive execution the keys come from another operator of the build side", adaptive)
  val NarrowedLater = Reason("join.narrowed", "in a new plan of adaptive execution the build side has other filters than before", adaptive)
  val NarrowedApart = Reason("join.narrowedApart", "equal build sides are filtered differently by other joins of the query", "nothing: equal build sides share one filter, which needs the same keys from each of them")
  val NotAsked = Reason("join.notAsked", "all keys were collected, but no scan asked for the filter", "nothing if Spark did not run the scan (it has no rows in Spark's SQL tab); else the scan ended before the keys were complete: give the hint `DYNAMIC_FILTER`, and if that is not enough, raise `join.waitTimeout`")
  val TooLate = Reason("join.late", "the filter became complete after its scans had started", "give the hint `DYNAMIC_FILTER`, so that the scan waits longer; if that is not enough, raise `join.waitTimeout`")
  val NoExecution = Reason("join.noExecution", "the query runs outside of a SQL execution", "use `collect` or a write: `df.rdd` and `toLocalIterator` run outside of a SQL execution")

  // Values of scalar subqueries.
  val SubqueryValue = Reason("subquery.value", "the compared value uses a user-defined function or another kind of subquery", "compute the whole value inside a scalar subquery")
  def SubqueryFailed(error: Throwable) = Reason("subquery.failed", s"the value cannot be computed (${error.getClass.getSimpleName})", "nothing: the query fails by that error once a row is compared with the value")
  val SubqueriesNotReused = Reason("subquery.reuse", "Spark would run the subquery twice: spark.sql.execution.reuseSubquery=false", "set it to `true`, Spark's default")

  // Filters that are less than they could be.
  private val maxRows = "raise `join.maxBuildRows`"
  def ManyKeys(n: Int) = Reason("form.keys", s"the build side has more than $n keys", maxRows)
  def ManyIntervals(n: Int) = Reason("form.intervals", s"the build side has more than $n intervals", "raise `in.maxValues`")
  def ManyKeysInPartition(n: Long) = Reason("form.keysOfPartition", s"a partition of the build side has more than $n keys", "raise `join.maxBuildRows` and `maxFilterBytes`")
  private val maxBytes = "raise `maxFilterBytes`"
  def LargeValues(n: Long) = Reason("form.values", s"the values take more than $n bytes", maxBytes)
  def LargeBitmap(n: Long) = Reason("form.bitmap", s"a bitmap takes more than $n bytes", maxBytes)
  def LargeBloom(n: Long) = Reason("form.bloom", s"a Bloom filter takes more than $n bytes", maxBytes)
  def LargeRange(n: Long) = Reason("form.range", s"even the range is larger than $n bytes", maxBytes)
  val LongKeys = Reason("form.sent", "the build keys are too long to be sent: they count towards spark.driver.maxResultSize", "raise `spark.driver.maxResultSize`, or join by shorter keys")
  def SparseKeys(n: Long) = Reason("form.sparse", s"too few keys for a bitmap: on average fewer than $n in each range of 2^32 numbers", "nothing: a Bloom filter takes its place")

  // Types.
  def NoOrder(typeName: String) = Reason("type.order", s"type $typeName is not supported: filters take numbers, strings, binary and boolean values, dates, times, timestamps and ANSI intervals", "use a column of such a type as the key")
  def Padded(typeName: String) = Reason("type.padded", s"type $typeName is not supported: its values may be padded", "use a STRING column, or `spark.sql.readSideCharPadding=false` if the values are not padded")
  def Collated(typeName: String) = Reason("type.collation", s"type $typeName is not supported: only strings of collation UTF8_BINARY compare by their bytes", "use a column with the collation UTF8_BINARY")

  // Scans.
  val StreamSource = Reason("scan.stream", "the scan reads a stream", "nothing: each batch needs all new rows; tables that the stream is joined to are filtered, unless the stream has a state")
  val Hinted = Reason("scan.hint", "the hint NO_DYNAMIC_FILTER is on the table", "nothing, or remove the hint")
  def HintNotFound(names: String) = Reason("scan.hintNotFound", s"a hint names tables that are not in its query block: $names", "name a table of the same SELECT: by its alias if it has one (see hints.md)")
  def OtherFormat(name: String) = Reason("scan.format", s"files of format $name, a Parquet format of another library, are not filtered", "store it as Parquet, or as a Delta or Iceberg table (see tables.md)")
  def NoStatistics(source: String) = Reason("scan.noStatistics", s"$source is a source without statistics: its rows are in memory or computed", "nothing if it is small; else write its rows to a table of Parquet, Delta or Iceberg")
  val DeltaLog = Reason("scan.deltaLog", "the scan reads Delta's own log", "nothing: Delta needs the whole log")
  def TakesNone(column: String) = Reason("scan.takesNone", s"the scan takes no filter on $column", "nothing: the data source decides which columns it filters (its authors: see extending.md)")
  def RowsOnly(table: String, operator: String) = Reason("scan.rowsOnly", s"$table can be filtered by rows only, and $operator in the same stage drops the same rows", "nothing, or store it as Parquet, or as a Delta or Iceberg table: scans of these also skip files")
  def NoBounds(table: String) = Reason("scan.noBounds", s"$table can be filtered by rows only, which is of no use to a TopK, min or max", "store it as Parquet, or as a Delta or Iceberg table (see tables.md)")
  val Rewritten = Reason("scan.rewritten", "the command rewrites the rows that it reads from the table", "nothing: the command must also rewrite the rows that match no key")
  private val ofFiles = "use a column that is stored in the files"
  def NotInScan(column: String) = Reason("scan.column", s"the scan does not read $column", ofFiles)
  def FileMetadata(column: String) = Reason("scan.metadata", s"$column is file metadata", ofFiles)
  def RowIndex(column: String) = Reason("scan.rowIndex", s"$column is a row index", ofFiles)
  val CorruptFilesIgnored = Reason("scan.corruptFiles", "corrupt files are ignored: skipping could change which of their rows are returned", "set `spark.sql.files.ignoreCorruptFiles` and the read option `ignoreCorruptFiles` to false")
  def AboveScan(reason: Reason) = Reason("scan.above", s"the scan itself skips nothing by the filter, Spark drops the rows after it: $reason", reason.advice)

  // Cached data.
  def CacheBounds(typeName: String) = Reason("cached.type", s"cached data has no statistics of type $typeName", "use a column of another type: Spark keeps no statistics of binary values")
  def CacheSerializer(serializer: String) = Reason("cached.serializer", s"cached data of $serializer has no known statistics", "use Spark's own serializer (`spark.sql.cache.serializer`)")
  val CacheNotPruned = Reason("cached.setting", "statistics of cached data are not used: spark.sql.inMemoryColumnarStorage.partitionPruning=false", "set it to `true`, Spark's default")
  def CacheOperator(name: String) = Reason("cached.operator", s"the operator $name of another library reads the cached data", "nothing: only Spark's own scan of cached data is filtered")
  def CacheRows(reason: Reason) = Reason("cached.rows", s"a lost block of the cache may be computed again with other rows: $reason", "write the data to a table and cache that table; filters of joins are not affected")

  // While files are read.
  val RowReader = Reason("read.rows", "the reader is not Spark's vectorized one", "set `spark.sql.parquet.enableVectorizedReader=true`, and read no nested columns")
  private val whole = "nothing: the file is read or skipped as a whole"
  val Encrypted = Reason("read.encrypted", "the file is encrypted", whole)
  val NoReader = Reason("read.setup", "the plugin could not set up its reader", whole)
  val CountsRows = Reason("read.deletions", "Delta finds deleted rows by counting rows: files are skipped as a whole only", "if `spark.databricks.delta.deletionVectors.useMetadataRowIndex` is false, set it to true, Delta's default")
  private val cost = "nothing: it cost more than it saved"
  val AskedOnce = Reason("read.predicates", "most rows pass the query's own conditions, so the columns of these conditions are not read first", cost)
  val SeldomLookedUp = Reason("read.lookups", "the files' dictionaries or Bloom filters excluded no row groups: they are read less often", cost)
  val ReadAtOnce = Reason("read.late", "filter columns are no longer read first (late materialization gave up)", cost)
  val RowsNotTested = Reason("read.tests", "rows are not tested one by one: most of them pass, or tests cost more than they save", "nothing, or give the hint `DYNAMIC_FILTER`")
  val FileChanged = Reason("read.changed", "a file was rewritten after its statistics were learned", "nothing: the old statistics are not used")
  val StatisticsFull = Reason("read.statistics", "not all statistics were sent: they count towards spark.driver.maxResultSize", "nothing: the next query reads the rest from the files")

  // What should not happen.
  private val report = "report it, with the log; the query ran without these filters"
  def Failed(error: Throwable, step: String) = Reason("failure.error", s"${error.getClass.getSimpleName} while $step", report)
  def Unreadable(problem: String) = Reason("failure.unreadable", s"the keys of a partition cannot be read: $problem", report)
  def NotBelow(column: String, name: String, operator: String) = Reason("failure.column", s"$column $name is not in the $operator below", report)
  private val ownOperator = "correct your own operator: see extending.md"
  val ColumnAndKey = Reason("failure.key", "the operator's column and key do not come from two of its children", ownOperator)
  val ColumnOfNone = Reason("failure.child", "the column comes from none of the operator's children", ownOperator)
  def OtherOperator(operator: String, other: String) = Reason("failure.withFilter", s"$operator.withFilter returned another operator: $other", ownOperator)
}
