"""Spark's web UI and History Server, over HTTP."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_dynamic_filters.testing._ports import free_port

#: For an application's code: what it prints after `page NAME` is the page, as JSON.
FETCHING = """
import json, threading, time
from support import ui
def fetch(path, spark):
    port = spark.sparkContext.uiWebUrl.rsplit(":", 1)[1]
    return ui.get(f"http://127.0.0.1:{port}{path}")
def settled(spark):
    # The report functions wait until Spark's listeners have seen all.
    return max(row.query_id for row in spark.sql("SELECT query_id FROM dynamic_filters()").collect())
def tell(name, value):
    print("page", name, json.dumps(value), flush=True)
"""


def get(url: str) -> tuple[int, str]:
    """Status and text of a page; status 0 where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode(errors="replace")
    except OSError:
        return 0, ""


@contextmanager
def history_server(logs: Path, folder: Path, jar: str) -> Iterator[str]:
    """A History Server over a folder of event logs.

    Args:
        logs: the folder.
        folder: for its own log and what it stores.
        jar: put on its class path.

    Yields:
        Its URL, once it has listed an application.
    """
    from pyspark.find_spark_home import _find_spark_home

    home = _find_spark_home()
    port = free_port()
    (folder / "store").mkdir()
    settings = {
        "spark.history.fs.logDirectory": logs.as_uri(),
        "spark.history.ui.port": str(port),
        "spark.history.store.path": str(folder / "store"),
    }
    environment = os.environ | {
        "SPARK_HOME": home,
        "SPARK_PUBLIC_DNS": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_CLASSPATH": jar,
        "SPARK_HISTORY_OPTS": " ".join(f"-D{key}={value}" for key, value in settings.items()),
    }
    command = [str(Path(home, "bin", "spark-class")), "org.apache.spark.deploy.history.HistoryServer"]
    url = f"http://127.0.0.1:{port}"
    own = folder / f"history-{port}.log"
    with own.open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            until = time.monotonic() + 90
            while not get(f"{url}/api/v1/applications")[1].strip("[] \n"):
                assert time.monotonic() < until, own.read_text(errors="replace")[-4000:]
                assert server.poll() is None, own.read_text(errors="replace")[-4000:]
                time.sleep(0.3)
            yield url
        finally:
            server.terminate()
            server.wait(30)
