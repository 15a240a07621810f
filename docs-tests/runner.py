"""Runs a page's blocks in order: Python and SQL in one Python process, shell commands in bash."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from environment import variables
from pages import Block

from spark_dynamic_filters.testing._ports import free_port

SECONDS = 300.0  # for one block; the machine may have other work
START_SECONDS = 120.0  # for a server
CONNECT = "15002"
_PORTS = re.compile(rf"\b({CONNECT}|7077)\b")  # the default ports of Spark Connect and of a standalone master

# Reads blocks as lines of JSON and answers each with its exception or null. What blocks print goes to stderr.
_INTERPRETER = """
import ast, json, os, sys, traceback
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
namespace = {"__name__": "__main__"}
def statements(text):
    lines = (line.split("--")[0] for line in text.splitlines())
    return [s for s in " ".join(lines).split(";") if s.strip()]
def run(block):
    if block["language"] == "sql":
        from pyspark.sql import SparkSession
        spark = namespace.get("spark")
        if spark is None:
            import spark_dynamic_filters as sdf
            spark = namespace["spark"] = sdf.configure(SparkSession.builder.master("local[2]")).getOrCreate()
        for statement in statements(block["code"]):
            spark.sql(statement).show()
    else:
        exec(compile(block["code"], block["name"], "exec"), namespace)
for line in sys.stdin:
    try:
        run(json.loads(line))
        reply = None
    except BaseException:
        reply = traceback.format_exc()
    print(json.dumps(reply), file=replies, flush=True)
"""


class Failed(AssertionError):
    """A block did not run."""


class Page:
    """Runs blocks in a folder of their own; ends every process that they have started when it is closed.

    Args:
        python: the environment's Python.
        folder: where the blocks run; what they make is left there.
    """

    def __init__(self, python: Path, folder: Path) -> None:
        self._python = python
        self._folder = folder
        self._log = folder.parent / f"{folder.name}.log"
        self._interpreter: subprocess.Popen[str] | None = None
        self._servers: list[subprocess.Popen[bytes]] = []
        self._ports: dict[str, str] = {CONNECT: str(free_port())}
        self._conf = folder.parent / f"{folder.name}-conf"
        self._conf.mkdir()
        # Pages use the default port, which may be taken here, and the machine has other work.
        (self._conf / "spark-defaults.conf").write_text(
            f"spark.connect.grpc.binding.port {self._ports[CONNECT]}\n"
            "spark.ui.enabled false\n"
            "spark.sql.shuffle.partitions 4\n"
            # Short processes: most of what the second compiler does would come too late.
            "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n"
        )

    def run(self, block: Block) -> None:
        """Runs one block.

        Raises:
            Failed: it raised, returned another code than 0, or took too long.
        """
        code = _PORTS.sub(lambda found: self._port(found[1]), block.code)
        if "new Python" in block.notes:
            self._end_interpreter()
        if block.language == "sh":
            self._shell(block, code)
        else:
            self._python_or_sql(block, code)

    def close(self) -> None:
        """Ends what runs."""
        self._end_interpreter()
        for server in self._servers:
            _end_group(server)
        self._servers.clear()

    def _python_or_sql(self, block: Block, code: str) -> None:
        if self._interpreter is None:
            self._interpreter = subprocess.Popen(
                [str(self._python), "-c", _INTERPRETER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log.open("ab"),
                cwd=self._folder,
                env=self._variables(),
                text=True,
                start_new_session=True,
            )
        process = self._interpreter
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"name": str(block), "language": block.language, "code": code}
        timer = _Alarm(process)
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        reply = process.stdout.readline()
        timer.cancel()
        if not reply:
            raise Failed(f"{block}: its Python ended or took more than {SECONDS:.0f} s\n{self._tail()}")
        error = json.loads(reply)
        if error:
            raise Failed(f"{block}:\n{error}")

    def _shell(self, block: Block, code: str) -> None:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=self._variables(),
                start_new_session=True,
            )
        self._servers.append(process)
        if "a server" in block.notes:
            named = _PORTS.search(block.code)
            self._wait_for_port(block, process, self._port(named[1] if named else CONNECT))
            return
        try:
            exit_code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"{block}: took more than {SECONDS:.0f} s\n{self._tail()}") from None
        if exit_code:
            raise Failed(f"{block}: exit code {exit_code}\n{self._tail()}")

    def _port(self, default: str) -> str:
        """What is used in place of a default port, which may be taken."""
        return self._ports.setdefault(default, str(free_port()))

    def _wait_for_port(self, block: Block, process: subprocess.Popen[bytes], port: str) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                    return
            time.sleep(0.2)
        raise Failed(f"{block}: no server came up\n{self._tail()}")

    def _variables(self) -> dict[str, str]:
        return {**variables(self._python), "SPARK_CONF_DIR": str(self._conf)}

    def _end_interpreter(self) -> None:
        if self._interpreter is not None:
            assert self._interpreter.stdin is not None
            self._interpreter.stdin.close()
            try:
                self._interpreter.wait(30)
            except subprocess.TimeoutExpired:
                _end_group(self._interpreter)
            self._interpreter = None

    def _tail(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-4000:]


class _Alarm:
    """Ends a process that gives no answer in time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._timer = threading.Timer(SECONDS, _end_group, [process])
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        self._timer.cancel()


def _end_group(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
