"""The tab Dynamic Filters of Spark's UI and of the History Server, and what Spark's SQL tab shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spark_dynamic_filters._jar import jar_path
from support import ui
from support.applications import run_application

# An application of its own: the mode of the suite makes no difference.
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(400)]

_APPLICATION = (
    ui.FETCHING
    + """
logs = folder / "logs"
logs.mkdir()
spark = start("local[2]", settings={
    "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.ui.liveUpdate.period": "0",
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": logs.as_uri(),
    "spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false",
    "spark.acls.enable": "true", "spark.ui.view.acls": "reader",
    "spark.sql.shuffle.partitions": "2", "spark.sql.autoBroadcastJoinThreshold": "-1",
})
def view(name, df):
    df.write.parquet(str(folder / name))
    spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
view("p", spark.range(0, 40000, 1, 4).selectExpr("id AS k", "cast(id AS string) AS s", "id % 10 AS g"))
view("b", spark.range(100, 140).selectExpr("id AS k", "id AS v"))

def done(name, session, query, action=lambda df: df.collect()):
    action(session.sql(query))
    number = settled(session)
    tell(name + "-id", number)
    tell(name, fetch(f"/DynamicFilters/query/?id={number}", spark))
    return number

spark.sparkContext.setJobDescription("top <script>alert(1)</script> & five")
done("topk", spark, "SELECT * FROM p ORDER BY k DESC LIMIT 5")
spark.sparkContext.setJobDescription(None)
noop = lambda df: df.write.format("noop").mode("overwrite").save()
join = "SELECT p.s, b.v FROM p JOIN b ON p.k = b.k WHERE b.v < 120"
done("join", spark, join, noop)
done("rejected", spark, "SELECT count(*), min(k) FROM p")
done("text", spark, "SELECT * FROM p WHERE g = 3 ORDER BY s LIMIT 3")

hidden = spark.newSession()
hidden.conf.set("spark.dynamicFilters.report.showValues", "false")
for name in "pb":
    hidden.read.parquet(str(folder / name)).createOrReplaceTempView(name)
done("hidden", hidden, "SELECT * FROM p WHERE g < 9 ORDER BY k DESC LIMIT 7")
done("hidden-join", hidden, join)

# The build side takes its time: the probe side waits.
slow = spark.udf.register("slow", lambda k: time.sleep(0.15) or True, "boolean")
query = threading.Thread(target=lambda: spark.sql(join + " AND slow(b.v)").collect())
query.start()
until = time.monotonic() + 60
while time.monotonic() < until:
    status, listed = fetch("/DynamicFilters/", spark)
    if "running" in listed:
        number = listed.split("query/?id=")[1].split('"')[0]
        status, page = fetch(f"/DynamicFilters/query/?id={number}", spark)
        if "building" in page and "running" in page:
            tell("running", (status, page))
            break
    time.sleep(0.05)
query.join()
settled(spark)
tell("after", fetch(f"/DynamicFilters/query/?id={number}", spark))

tell("list", fetch("/DynamicFilters/", spark))
tell("nobody", fetch("/DynamicFilters/query/?id=%3Cb%3E", spark))
for path in ("SQL", "DynamicFilters", "DynamicFilters/query", "DynamicFilters/json"):
    tell("acl-" + path, [fetch(f"/{path}/?doAs={user}", spark)[0] for user in ("reader", "stranger")])
application = spark.sparkContext.applicationId
time.sleep(1)
tell("rest", json.loads(fetch(f"/api/v1/applications/{application}/sql?details=true&length=1000", spark)[1]))
tell("jobs", json.loads(fetch(f"/api/v1/applications/{application}/jobs", spark)[1]))
tell("application", application)
spark.stop()
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ui")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    """What an application fetched of its own UI."""
    lines = run_application(_APPLICATION, folder, seconds=380).splitlines()
    pages = (line.split(" ", 2)[1:] for line in lines if line.startswith("page "))
    return {name: json.loads(text) for name, text in pages}


def _ok(answer: tuple[int, str]) -> str:
    status, text = answer
    assert status == 200
    assert "Dynamic Filters" in text
    assert "cannot be shown" not in text
    return re.sub(r"\s+", " ", text)


#: By page: what it shows. `PagesSuite` has what becomes of odd texts, times and shares.
SHOWN = {
    "topk": ("topk", "ready", "range", "finished", "First used", "39", "k &gt;= 399", "top &lt;script&gt;"),
    "join": ("join", "ready", "in", "100 &lt;= k &lt;= 119", "1 of 4 (25 %)", "row groups skipped by"),
    "rejected": ("Possible, but not used", "aggregate"),
    "hidden": ("<code>hidden</code>",),
    "hidden-join": ("<code>hidden</code>",),
    "running": ("building", "registered"),
    "after": ("ready", "finished"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_pages(told: dict[str, Any], name: str) -> None:
    page = _ok(told[name])
    for shown in SHOWN[name]:
        assert shown in page, page
    assert "<script>alert" not in page
    assert not name.startswith("hidden") or not re.search("&[gl]t;=", page), page
    if name == "join":
        # It was complete and used at some time of the query.
        assert re.search(r"ready \+[\d,]+ ms, first used \+[\d,]+ ms", page), page


def test_the_list(told: dict[str, Any]) -> None:
    page = _ok(told["list"])
    ids = [int(i) for i in re.findall(r"/DynamicFilters/query/\?id=(\d+)", page)]
    assert ids == sorted(ids, reverse=True)
    assert {told["topk-id"], told["join-id"], told["hidden-id"], told["rejected-id"]} <= set(ids)
    assert f'SQL/execution/?id={told["topk-id"]}"' in told["topk"][1]
    assert "1 in force" in page
    assert "<script>alert" not in page
    assert "Which query?" in _ok(told["nobody"])


def test_access_is_that_of_other_tabs(told: dict[str, Any]) -> None:
    for path in ("SQL", "DynamicFilters", "DynamicFilters/query", "DynamicFilters/json"):
        assert told[f"acl-{path}"] == [200, 403], path


def test_nodes_and_metrics_of_the_sql_tab(told: dict[str, Any]) -> None:
    nodes = {
        name: {n["nodeName"]: {m["name"]: m["value"] for m in n["metrics"]} for n in query["nodes"]}
        for name in ("topk", "join")
        for query in told["rest"]
        if query["id"] == told[f"{name}-id"]
    }

    def metrics(query: str, start: str) -> dict[str, str]:
        (found,) = [
            m for name, m in nodes[query].items() if re.fullmatch(start + r" DynamicFilter#\d+", name)
        ]
        return found

    topk = metrics("topk", "TopKFilter")
    assert 5 <= int(topk["number of output rows"].replace(",", "")) < 40_000
    assert "number of output rows" in metrics("topk", "DynamicFilterScan")
    build = metrics("join", "BuildKeys")
    assert build["number of output rows"] == "20"
    assert build["distinct keys in the filter"] == "20"
    assert "B" in build["size of the filter"]
    assert "time that scans were held back" in build
    metrics("join", "DynamicFilterScan")


def test_jobs_are_named_by_their_query(told: dict[str, Any]) -> None:
    """Those of stages with our operators: Spark submits them on threads of its own."""
    sql = next(q for q in told["rest"] if q["id"] == told["join-id"])
    ids = {*sql["successJobIds"], *sql["failedJobIds"], *sql["runningJobIds"]}
    names = [j["name"] for j in told["jobs"] if j["jobId"] in ids]
    assert len(names) >= 3
    assert not [n for n in names if "anonfun" in n], names


def test_the_history_server(told: dict[str, Any], folder: Path) -> None:
    base = f"/history/{told['application']}"
    with ui.history_server(folder / "logs", folder, jar_path()) as url:
        page = _ok(ui.get(f"{url}{base}/DynamicFilters/"))
        assert f'{base}/DynamicFilters/query/?id={told["join-id"]}"' in page
        for name in ("topk", "join", "rejected", "hidden"):
            seen = _ok(ui.get(f"{url}{base}/DynamicFilters/query/?id={told[f'{name}-id']}"))
            assert _content(seen, base) == _content(_ok(told[name]), ""), name
        assert "Nothing is known" in _ok(ui.get(f"{url}{base}/DynamicFilters/query/?id=99999"))
    log = (folder / "logs" / told["application"]).read_text(encoding="utf-8")
    events = [line for line in log.splitlines() if '"org.dynamicfilters.ui.' in line[:80]]
    assert len({json.loads(line)["executionId"] for line in events}) == len(events) >= 6
    assert max(map(len, events)) < 20_000
    assert '"expression":"hidden"' in log


def _content(page: str, base: str) -> str:
    """Without the frame and without what tells where it is."""
    body = page[page.index("Query: ") :].replace(f'"{base}/', '"/')
    return re.split(r"</div>|<footer", body)[0]
