"""
The commands of the guide and of the README, run as written.

Each document has a table here: its commands in an order in which they can be run, with exit code
and expected output, and the commands that are not run, with the reason. A command that stands in no
table, or in a table only, fails the tests. A reader has other addresses, ids and directories than
these tests: ``Scene.as_here`` replaces those and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from integration.rigs.cluster import Cluster
from integration.rigs.documents import Done, listed_commands, run_in_shell
from integration.rigs.guide_tables import PAGES, TOPIC, Run, Serve, prepare
from integration.rigs.operator_actions import forget
from integration.rigs.processes import dying_with_parent
from integration.rigs.reserved_ports import ReservedPort
from integration.rigs.scratch_directories import scratch_directory
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

ROOT: Final = Path(__file__).resolve().parent.parent
GUIDE: Final = ROOT / "docs" / "guide"
PLAN: Final = re.compile(r'^ *(\{"version":1,"partitions":\[.*\]\})$', re.MULTILINE)
"""The plan that the guide shows."""
SCRIPT: Final = re.compile(r"^```sh\n(#!.*?)^```", re.MULTILINE | re.DOTALL)
"""The program that the page on notifications shows."""
BEFORE: Final = {number: [1, 2, 3 + number // 3] for number in range(8)}
"""Some on brokers 4 and 5, which pages drain."""
RECORDS: Final = 2_000
"""So that the forecasts of the documents have something to copy."""
HTTP: Final = "127.0.0.1:8095"
"""The address of the daemon in the documents."""


class Scene:
    """A reader's machine: a directory, a shell with exports, and a cluster with a topic."""

    def __init__(self, cluster: Cluster, directory: Path, port: ReservedPort) -> None:
        """Prepare an empty shell."""
        self.cluster = cluster
        self.directory = directory
        self.port = port
        self.exports: list[str] = []
        self.request = "request_0000000000"
        """The id of the last request."""
        self.hash = ""
        """The hash of the last plan that was written for approval."""
        ours = {k: v for k, v in os.environ.items() if not k.startswith("REASSIGNER_")}
        self.environment = {
            **ours,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "REASSIGNER_ZOOKEEPER": cluster.zookeeper_connect,
            "REASSIGNER_HTTP": port.address,
        }

    def as_here(self, command: str) -> str:
        """Replace the addresses, directories, ids and placeholders of a document."""
        places = {
            "zk1:2181,zk2:2181/kafka": self.cluster.zookeeper_connect,
            "zk1:2181/kafka": self.cluster.zookeeper_connect,
            "b1:9092": self.cluster.bootstrap_servers,
            HTTP: self.port.address,
            "/var/lib/reassigner": str(self.directory / "journal"),
            "/usr/local/bin/notify": str(self.directory / "notify"),
            "request_0000000000": self.request,
            "drain 6": "drain 4",
            "add 6": "add 5",
        }
        for text, here in places.items():
            command = command.replace(text, here)
        words = {
            "REQUEST": self.request,
            "ID": self.request,
            "TOPIC-PARTITION": f"{TOPIC}-0",
            "TOPIC-N": f"{TOPIC}-0",
            r"RATE\|none": "50MB",
            "RATE": "50MB",
            "N": "50MB",
            "HASH": self.hash,
            "NAME": "ann",
        }
        for placeholder, here in words.items():
            command = re.sub(rf"(?<![\w-]){placeholder}(?![\w-])", here, command)
        return command

    def run(self, step: Run) -> Done:
        """Run a command; note what it exports, and the ids that it prints."""
        command = self.as_here(step.command)
        in_repository = command.startswith(("make ", "promtool "))
        done = run_in_shell(
            command,
            self.exports,
            self.environment,
            ROOT if in_repository else self.directory,
            interrupt_after_s=step.interrupt_after_s,
        )
        if command.startswith("export "):
            self.exports.append(command)
        accepted = re.findall(r"(?:Accepted as|Request) (request_\d+)", done.output)
        self.request = (accepted or [self.request])[-1]
        self.hash = (re.findall(r"\b[0-9a-f]{64}\b", done.output) or [self.hash])[-1]
        return done

    def serve(self, step: Serve) -> Served:
        """Start a daemon; return when it leads."""
        served = Served(self, "\n".join((*self.exports, f"exec {self.as_here(step.command)}")))
        eventually(
            lambda: self.run(prepare("reassigner status")).code in {0, 2},
            within_s=60,
            what=lambda: f"a daemon leads: {served.log.read_text()[-2000:]}",
        )
        return served


class Served:
    """A daemon that runs until it is stopped."""

    def __init__(self, scene: Scene, script: str) -> None:
        """Start it in the directory of the scene."""
        self.log = scene.directory / "daemon.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                dying_with_parent(["bash", "-c", script]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=scene.environment,
                cwd=scene.directory,
            )

    def stop(self) -> int:
        """Stop it as systemd does; return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=30)


@pytest.fixture
def scene(cluster: Cluster, nothing_turned: None) -> Iterator[Scene]:
    """Give a directory with plans, and a cluster with the topic of the documents."""
    del nothing_turned
    port = ReservedPort()
    with scratch_directory() as directory:
        plan = PLAN.search((GUIDE / "plans.md").read_text(encoding="utf-8"))
        assert plan is not None
        (directory / "plan.json").write_text(plan[1], encoding="utf-8")
        other = {"topic": TOPIC, "partition": 1, "replicas": [3, 4, 5]}
        orders = {"version": 1, "partitions": [other]}
        (directory / "orders.json").write_text(json.dumps(orders), encoding="utf-8")
        script = SCRIPT.search((GUIDE / "notifications.md").read_text(encoding="utf-8"))
        assert script is not None
        (directory / "notify").write_text(script[1], encoding="utf-8")
        (directory / "notify").chmod(0o755)
        try:
            cluster.create_topic(TOPIC, BEFORE, {"min.insync.replicas": "2"})
            with Traffic(cluster.bootstrap_servers, {TOPIC: len(BEFORE)}) as traffic:
                eventually(lambda: len(traffic.acknowledged) >= RECORDS, within_s=60)
            yield Scene(cluster, directory, port)
        finally:
            forget(cluster)
            eventually(cluster.controller_broker, within_s=30, what="a broker is the controller")
            cluster.delete_topics(TOPIC)
            cluster.await_deletions()  # the next document takes the same name
            port.close()


def path_of(name: str) -> Path:
    """Return the file of a document."""
    return ROOT / name if name == "README.md" else GUIDE / name


@pytest.mark.smoke
def test_every_document_has_a_table() -> None:
    """Also one that is new."""
    assert PAGES.keys() == {"README.md", *(path.name for path in GUIDE.glob("*.md"))}


@pytest.mark.smoke
@pytest.mark.parametrize("name", PAGES)
def test_every_listed_command_is_run_or_has_a_reason(name: str) -> None:
    """And what is run is what the document lists."""
    page = PAGES[name]
    assert set(listed_commands(path_of(name).read_text(encoding="utf-8"))) == page.listed


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.steps])
def test_the_commands_of_a_document_work_as_written(name: str, scene: Scene) -> None:
    """Each ends with the exit code, and prints what the table expects."""
    with ExitStack() as stack:
        for step in PAGES[name].steps:
            if isinstance(step, Serve):
                served = scene.serve(step)
                stack.callback(served.stop)
                continue
            done = scene.run(step)
            about = f"{step.command}\nended with {done.code}:\n{done.output}"
            assert done.code in (step.codes if step.is_listed else {0, 2}), about
            assert re.search(step.output, done.output), about
