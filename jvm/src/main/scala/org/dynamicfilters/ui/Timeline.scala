package org.dynamicfilters.ui

import java.util.Locale

import scala.xml.Node

import org.dynamicfilters.report.{FilterEntry, QueryEntry}

/** Draws the filters of a query on a time line, as SVG. A thin line: the filter is not ready. A bar: it is ready. An orange line: a
  * scan is held back for it. A ring: the first scan uses it.
  */
private[ui] object Timeline {
  private val (scale, line) = (700, 20)
  private val CharacterWidth = 6.5
  private val Colors = Seq("#0b6e99", "#c2410c", "#15803d", "#7e22ce", "#b91c1c", "#a16207")
  private val MostTicks = 6

  /** Round times on the axis of a query of so many milliseconds: 1, 2 or 5 and zeros apart. */
  def ticks(length: Long): Seq[Long] = {
    val steps = Iterator.iterate(1L)(_ * 10).flatMap(power => Seq(power, 2 * power, 5 * power))
    val step = steps.find(s => length / s < MostTicks).get
    0L to length by step
  }

  def pixels(x: Double): String = "%.1f".formatLocal(Locale.ROOT, x)

  /** Draws nothing if the query's start is unknown. */
  def draw(q: QueryEntry, now: Long): Seq[Node] =
    if (q.started <= 0) Nil
    else {
      val names = q.filters.map(f => s"#${f.id} ${f.columns.mkString(", ")}")
      val labels = math.ceil(CharacterWidth * names.map(_.length).maxOption.getOrElse(0)).toInt + 10
      val end = math.max(if (q.ended > 0) q.ended else now, q.started + 1)
      def x(millis: Long): Double =
        labels + scale * (math.min(math.max(millis, q.started), end) - q.started).toDouble / (end - q.started)
      val height = line * (q.filters.size + 1) + 8
      val rows = q.filters.zipWithIndex.flatMap { case (f, i) => row(q, f, names(i), line * i + line / 2 + 4, x, end) }
      <svg id="dynamic-filters-timeline" width={(labels + scale + 60).toString} height={height.toString} role="img"
           font-family="sans-serif" font-size="11" aria-label="time line of the query's filters">
        {ticks(end - q.started).map(t => tick(t, x(q.started + t), line * q.filters.size + 6))}
        {rows}
      </svg> ++ Legend
    }

  private val Legend: Seq[Node] =
    <p class="text-muted"><small>Thin line: the filter is not there yet. Orange: a scan is held back for it. Bar: it is in
      force. Ring: the first scan starts that has it from its first row on.</small></p>

  private def tick(millis: Long, x: Double, y: Int): Node = {
    val at = pixels(x)
    <g>
      <line x1={at} x2={at} y1="0" y2={y.toString} stroke="#e5e7eb"/>
      <text x={at} y={(y + 14).toString} fill="#6b7280">{Formats.number(millis)} ms</text>
    </g>
  }

  private def row(q: QueryEntry, f: FilterEntry, name: String, y: Int, x: Long => Double, end: Long): Seq[Node] = {
    val color = Colors((f.id.toLongOption.getOrElse(0L) % Colors.size).toInt.abs)
    val from = if (f.registered > 0) f.registered else q.started
    val until = if (f.ready > 0) f.ready else end
    val about = s"${f.name}, ${f.producer}: registered ${Formats.since(q.started, from)}, " +
      s"ready ${Formats.since(q.started, f.ready)}, first used ${Formats.since(q.started, f.used)}, " +
      s"held back ${f.waited} ms"
    def bar(a: Long, b: Long, height: Int, fill: String): Node =
      <rect x={pixels(x(a))} y={(y - height / 2).toString} width={pixels(math.max(1.0, x(b) - x(a)))}
            height={height.toString} fill={fill}/>
    val comes = if (f.state == "disabled") bar(from, from, 8, "#9ca3af") else bar(from, until, 2, color)
    val waits = if (f.waited > 0 && f.ready > 0) Seq(bar(f.ready - f.waited, f.ready, 4, "#f59e0b")) else Nil
    val ready = if (f.ready > 0 && f.state == "ready") Seq(bar(f.ready, end, 10, color)) else Nil
    val used =
      if (f.used <= 0) Nil
      else Seq(<circle cx={pixels(x(f.used))} cy={y.toString} r="4" fill="#fff" stroke={color} stroke-width="2"/>)
    <g>
      <title>{about}</title>
      <text x="0" y={(y + 4).toString} fill={color}>{name}</text>
      {comes}{waits}{ready}{used}
    </g>
  }
}
