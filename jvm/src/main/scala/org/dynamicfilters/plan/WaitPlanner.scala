package org.dynamicfilters.plan

import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.dynamicfilters.scan.Wait
import org.dynamicfilters.state.StepTracker

/** Decides how long scans of a probe side below an exchange wait for the filter of the build side, by estimates of both sides.
  * [[JoinPlanner]] makes one for each join. A hint on the scan overrules it.
  *
  * While the tasks of the build side run, idle slots could read the probe side. Waiting loses that time. Not waiting loses the
  * work on rows, and on splits, that the filter would have excluded. So waiting pays unless most rows pass, and costs little if
  * the build side is read quickly. Measured for 10M rows and 1M keys on two cores: 4.54 and 5.19 s with the wait, 4.30 and
  * 4.73 s without if all rows match; 0.70 s with it and 1.15 s without if one row group has matches.
  */
final class WaitPlanner(probe: SparkPlan, build: SparkPlan) {
  private lazy val logical = for (p <- JoinSides.logical(probe); b <- JoinSides.logical(build)) yield (p, b)
  private lazy val forSides = logical.fold[Wait](Wait.UntilReady) { case (p, b) =>
    WaitPlanner.forPlans(p, b, BuildEstimates.estimate(build).fold(1.0)(_.selectivity))
  }

  /** How long a scan of the probe side waits. A small scan beside large ones waits no longer than it would alone. */
  def apply(scan: SparkPlan): Wait = forSides match {
    case Wait.UntilReady =>
      val alone =
        for (s <- JoinSides.logical(scan); (_, b) <- logical)
          yield WaitPlanner.forSmallScan(Estimates.reading(s), Estimates.reading(b))
      alone.flatten.getOrElse(Wait.UntilReady)
    case other => other
  }
}

object WaitPlanner {

  /** @param selectivity estimated share of the build side's keys that its conditions leave */
  private[plan] def forPlans(probe: LogicalPlan, build: LogicalPlan, selectivity: Double): Wait = {
    val (toRead, first) = (Estimates.reading(probe), Estimates.reading(build))
    val mayTakeLong = callsFunctions(build)
    val isReadInNoTime = toRead.bytes <= SmallBytes && !callsFunctions(probe)
    // Waiting for the build side costs at most the share of time that a useless filter may cost.
    val costsLittle = !mayTakeLong && (isReadInNoTime || first.rows <= toRead.rows * StepTracker.ShareOfWork)
    // Break-even is about half of the rows. A single comparison is too weak a condition.
    if (toRead.bytes <= TinyBytes) Wait.No
    else if (isReadMeanwhile(toRead, first)) Wait.Briefly
    else if (costsLittle || selectivity < Estimates.Comparison) Wait.UntilReady
    else Wait.Briefly
  }

  /** Whether the plan calls user-defined functions, whose time is unknown. */
  private def callsFunctions(p: LogicalPlan): Boolean =
    p.exists(_.expressions.exists(_.exists(_.isInstanceOf[UserDefinedExpression])))

  /** The wait of a scan that idle slots can read while the build side runs; None for larger scans. A tiny scan does not wait: in
    * TPC-DS q65, the scan of twelve stores came after two scans of `store_sales`, and waited six seconds for a slot.
    */
  private[plan] def forSmallScan(scan: Reading, build: Reading): Option[Wait] =
    Option.when(isReadMeanwhile(scan, build))(if (scan.bytes <= TinyBytes) Wait.No else Wait.Briefly)

  /** Whether idle slots read the scan before the filter is complete. */
  private def isReadMeanwhile(toRead: Reading, first: Reading): Boolean =
    toRead.bytes <= SmallBytes && toRead.bytes * MeanwhileShare <= first.bytes

  /** A few thousand rows, read before a filter can be complete. If a side turns out empty, adaptive execution cancels the other
    * sides of the join. If that side waited, the others would run meanwhile, and could raise an error (ANSI) that stock Spark
    * does not reach.
    */
  private val TinyBytes = BigInt(16L << 10)

  /** One core reads less than this in about a second. */
  private val SmallBytes = BigInt(64L << 20)

  /** The build side's tables must have this many times the bytes. */
  private val MeanwhileShare = 4
}
