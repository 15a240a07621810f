package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.scan.Wait
import org.dynamicfilters.state.StepTracker

/** How long a probe side that lies below an exchange is held back for the filter of its build side.
  *
  * What is at stake: while a build side of few tasks runs, slots are idle that could read the probe side. Held back, the query
  * loses what these slots would have read and the join needs. Not held back, it loses the work on rows that they read and the
  * filter would have dropped, and splits that the driver would have left out. So waiting pays unless most rows pass, and costs
  * little where the build side is read in no time. Measured on a join of 10M rows with a tenth as many keys on its build side, all
  * of which match, two cores: 4.54 and 5.19 s held back, 4.30 and 4.73 s not; where the filter leaves one row group, 0.70 s held
  * back, 1.15 s not.
  *
  * By what is expected of the two sides; a hint on the scan overrules it.
  */
final class WaitPlanner(probe: SparkPlan, build: SparkPlan) {
  private lazy val logical = for (p <- JoinSides.logical(probe); b <- JoinSides.logical(build)) yield (p, b)
  private lazy val ofSides = logical.fold[Wait](Wait.UntilReady) { case (p, b) =>
    WaitPlanner.forPlans(p, b, BuildEstimates.of(build).fold(1.0)(_.selectivity))
  }

  /** How long a scan of the probe side waits: a small one beside large ones no longer than if it were alone. */
  def apply(scan: SparkPlan): Wait = ofSides match {
    case Wait.UntilReady =>
      val alone =
        for (s <- JoinSides.logical(scan); (_, b) <- logical)
          yield WaitPlanner.ofSmallScan(Estimates.reading(s), Estimates.reading(b))
      alone.flatten.getOrElse(Wait.UntilReady)
    case other => other
  }
}

object WaitPlanner {

  /** @param selectivity
    *   share of the build side's keys that is expected to be left
    */
  private[plan] def forPlans(probe: LogicalPlan, build: LogicalPlan, selectivity: Double): Wait = {
    val (toRead, first) = (Estimates.reading(probe), Estimates.reading(build))
    val mayTakeLong = callsFunctions(build)
    val isReadInNoTime = toRead.bytes <= SmallBytes && !callsFunctions(probe)
    // As much as a useless filter may cost.
    val costsLittle = !mayTakeLong && (isReadInNoTime || first.rows <= toRead.rows * StepTracker.ShareOfWork)
    // Waiting and not waiting cost the same if half of the rows pass. One comparison alone says too little.
    if (toRead.bytes <= TinyBytes) Wait.No
    else if (isReadMeanwhile(toRead, first)) Wait.Briefly
    else if (costsLittle || selectivity < Estimates.Comparison) Wait.UntilReady
    else Wait.Briefly
  }

  /** Whether functions of users are called, which may take any time, for few bytes too. */
  private def callsFunctions(p: LogicalPlan): Boolean =
    p.exists(_.expressions.exists(_.exists(_.isInstanceOf[UserDefinedExpression])))

  /** A scan that is read beside the build side. One of few rows goes first, as in stock Spark: Spark runs jobs in the order in
    * which they come. In TPC-DS q65 twelve stores came a tenth of a second later than two scans of `store_sales`, and then
    * waited six more for a slot, and the join with them.
    */
  private[plan] def ofSmallScan(scan: Reading, build: Reading): Option[Wait] =
    Option.when(isReadMeanwhile(scan, build))(if (scan.bytes <= TinyBytes) Wait.No else Wait.Briefly)

  /** In slots that the build side leaves idle it is there before the filter could be. */
  private def isReadMeanwhile(toRead: Reading, first: Reading): Boolean =
    toRead.bytes <= SmallBytes && toRead.bytes * MeanwhileShare <= first.bytes

  /** A few thousand rows, or none: read before the filter can be there. If none are left, adaptive execution drops the other
    * sides of the join before it has submitted all of their stages. A side that is held back instead lets these run, and one of
    * them may raise an error of a row (ANSI) that stock Spark never comes to.
    */
  private val TinyBytes = BigInt(16L << 10)

  /** Less than this is read by one core in a second or so: no time to save. */
  private val SmallBytes = BigInt(64L << 20)

  /** How many times as much the build side's tables have. */
  private val MeanwhileShare = 4
}
