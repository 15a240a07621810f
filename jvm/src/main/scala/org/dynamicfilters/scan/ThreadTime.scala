package org.dynamicfilters.scan

import java.lang.management.ManagementFactory

/** Processor time of the current thread: other tasks on the core do not count. Takes a microsecond or less. */
private[scan] object ThreadTime {
  private val threads = ManagementFactory.getThreadMXBean
  private val isKnown = threads.isCurrentThreadCpuTimeSupported && threads.isThreadCpuTimeEnabled

  /** Nanoseconds; wall time where the JVM does not tell. */
  def nanos: Long = if (isKnown) threads.getCurrentThreadCpuTime else System.nanoTime()
}
