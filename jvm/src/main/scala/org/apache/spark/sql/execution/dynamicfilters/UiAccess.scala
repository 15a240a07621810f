package org.apache.spark.sql.execution.dynamicfilters

import java.lang.reflect.InvocationTargetException

import scala.xml.Node

import jakarta.servlet.http.HttpServletRequest
import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}
import org.apache.spark.util.kvstore.KVStore

/** Spark's web UI, which is visible only inside its own packages: a tab, and a part of the History Server. */
object UiAccess {

  /** One page of a tab.
    *
    * @param path below the tab's, "" for its first page
    * @param content the page without its frame. Called after Spark's access control
    */
  final case class Page(path: String, title: Request => String, content: Request => Seq[Node])

  /** A request for a page. */
  trait Request {
    def parameter(name: String): Option[String]

    /** A link to a path of this application's UI, also behind a proxy. */
    def link(path: String): String
  }

  private final class HttpRequest(request: HttpServletRequest, basePath: String) extends Request {
    override def parameter(name: String): Option[String] = Option(request.getParameter(name))
    override def link(path: String): String = UIUtils.prependBaseUri(request, basePath, path)
  }

  /** Adds a tab to the UI of a running application, if it has one.
    *
    * @return whether there is a UI
    */
  def attach(sc: SparkContext, name: String, prefix: String, pages: Seq[Page]): Boolean = {
    sc.ui.foreach(attach(_, name, prefix, pages))
    sc.ui.isDefined
  }

  private def attach(ui: SparkUI, name: String, prefix: String, pages: Seq[Page]): Unit =
    // Spark makes a handler of each page and puts its filters before it, that of access control among them.
    if (!ui.getTabs.exists(_.prefix == prefix)) ui.attachTab(new Tab(ui, name, prefix, pages))

  /** Whether the application has a UI or writes an event log. */
  def isWatched(sc: SparkContext): Boolean = sc.ui.isDefined || sc.isEventLogEnabled

  /** Posts an event to all listeners, that of the event log among them. */
  def post(sc: SparkContext, event: SparkListenerEvent): Unit = sc.listenerBus.post(event)

  def formatDuration(millis: Long): String = UIUtils.formatDuration(millis)
  def formatDate(millis: Long): String = UIUtils.formatDate(millis)

  private final class Tab(ui: SparkUI, override val name: String, prefix: String, pages: Seq[Page])
      extends SparkUITab(ui, prefix) {
    pages.foreach(p => attachPage(new FramedPage(this, p)))
  }

  private final class FramedPage(tab: Tab, page: Page) extends WebUIPage(page.path) {
    override def render(request: HttpServletRequest): Seq[Node] = {
      val asked = new HttpRequest(request, tab.basePath)
      frame(request, page.title(asked), page.content(asked), tab)
    }
  }

  // Spark 4.2 has one parameter more than 4.1, with a default like most of them.
  private lazy val (header, defaults) = {
    val method = UIUtils.getClass.getMethods.find(_.getName == "headerSparkPage").get
    val others = (5 to method.getParameterCount).map { i =>
      UIUtils.getClass.getMethod(s"headerSparkPage$$default$$$i").invoke(UIUtils)
    }
    (method, others)
  }

  private def frame(request: HttpServletRequest, title: String, content: Seq[Node], tab: SparkUITab): Seq[Node] =
    try
      header
        .invoke(UIUtils, Seq[AnyRef](request, title, () => content, tab) ++ defaults: _*)
        .asInstanceOf[Seq[Node]]
    catch { case e: InvocationTargetException => throw e.getCause }

  /** How many objects of a class the History Server keeps of an application.
    *
    * @param drop called with their number when there are more
    */
  final case class Bound(of: Class[_], most: Long, drop: Long => Unit)

  /** Part of the History Server, which finds subclasses by `META-INF/services`. */
  abstract class HistoryPart extends AppHistoryServerPlugin {

    /** Takes the events of an application's log into its store.
      *
      * @param keep puts an object there
      */
    protected def listener(keep: AnyRef => Unit): SparkListener

    protected def bound(conf: SparkConf, store: KVStore): Bound

    /** A tab's name, its path and its pages over what is in the store. */
    protected def tab(store: KVStore): (String, String, Seq[Page])

    override final def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] = {
      val b = bound(conf, store)
      store.addTrigger(b.of, b.most)(b.drop)
      Seq(listener(store.write(_, checkTriggers = true)))
    }

    override final def setupUI(ui: SparkUI): Unit = {
      val (name, prefix, pages) = tab(ui.store.store)
      attach(ui, name, prefix, pages)
    }
  }
}
