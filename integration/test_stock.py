"""
``reassigner stock`` beside Kafka's own tool: the same command lines, texts and exit codes.

Each case is run by both on one cluster in the same state. The stack traces that the Java program
prints below its errors are left out; everything else on standard output has to be the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import run_reassigner
from integration.rigs.kafka_jars import KAFKA_2_3
from integration.rigs.kafka_tools import REASSIGN_PARTITIONS, ToolResult, run_tool
from integration.rigs.plans import Daemons, configured, fill, is_reassigning, plan_of, specs
from integration.rigs.waiting import eventually

_TRACE: Final = re.compile(r"(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error)\b")
_WITHIN_S: Final = 180.0
SLOW: Final = "1000"
"""Bytes per second: nothing of a few megabytes arrives while a test looks."""

Tool = Callable[..., ToolResult]


@dataclass(frozen=True)
class Bench:
    """Both tools on one cluster, and a directory for their files."""

    cluster: Cluster
    directory: Path

    def stock(self, *arguments: str) -> ToolResult:
        """Run Kafka's tool of 3.9."""
        return self._java(
            REASSIGN_PARTITIONS, "--bootstrap-server", self.cluster.bootstrap_servers, *arguments
        )

    def ours(self, *arguments: str) -> ToolResult:
        """Run ours in the way of 3.9."""
        servers = ("--bootstrap-server", self.cluster.bootstrap_servers)
        return self.ours_alone(*servers, *arguments)

    def old_stock(self, *arguments: str) -> ToolResult:
        """Run Kafka's tool of 2.3, which speaks to ZooKeeper."""
        where = ("--zookeeper", self.cluster.zookeeper_connect)
        release = KAFKA_2_3
        done = run_tool(
            REASSIGN_PARTITIONS,
            *where,
            *arguments,
            release=release,
            directory=self.directory,
            within_s=_WITHIN_S,
            errors_too=False,
        )
        return done._replace(stdout=without_trace(done.stdout))

    def ours_alone(self, *arguments: str) -> ToolResult:
        """Run ours; without a broker it is in the way of 2.3."""
        where = ("--zookeeper", self.cluster.zookeeper_connect)
        return run_reassigner("stock", *where, *arguments, within_s=_WITHIN_S, errors_too=False)

    def _java(self, *arguments: str) -> ToolResult:
        done = run_tool(
            *arguments,
            release=self.cluster.options.broker.release,
            directory=self.directory,
            within_s=_WITHIN_S,
            errors_too=False,
        )
        return done._replace(stdout=without_trace(done.stdout))

    def file(self, name: str, content: object) -> str:
        """Write a file of JSON, or of what is no JSON; return its path."""
        path = self.directory / f"{name}.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def plan(self, topic: str, targets: Mapping[int, Sequence[int]], name: str = "plan") -> str:
        """Write a plan for a topic."""
        return self.file(name, plan_of({(topic, n): found for n, found in targets.items()}))


def without_trace(text: str) -> str:
    """Return what a person reads of the output of a Java program."""
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        if kept and _TRACE.match(line):
            break
        kept.append(line)
    return "".join(kept)


@pytest.fixture
def bench(cluster: Cluster, tmp_path: Path) -> Bench:
    """Give both tools."""
    directory = tmp_path / "tools"
    directory.mkdir()
    return Bench(cluster, directory)


def assert_same(bench: Bench, *arguments: str) -> ToolResult:
    """Run a command line by both; neither changes anything."""
    theirs, ours = bench.stock(*arguments), bench.ours(*arguments)
    assert ours == theirs
    return ours


# --- what changes nothing --------------------------------------------------------------------


@pytest.mark.smoke
def test_listing_and_wrong_usage_are_as_kafkas(bench: Bench) -> None:
    """Nothing to list, two actions, and an option of another action."""
    assert assert_same(bench, "--list").stdout == "No partition reassignments found.\n"
    assert assert_same(bench, "--list", "--verify") == (1, "")
    assert assert_same(bench, "--list", "--throttle", "5") == (1, "")


@pytest.mark.parametrize(
    "content",
    [
        "",
        [],
        {"version": 2, "partitions": []},
        {"version": "1", "partitions": []},
        {"version": 1},
        {"partitions": {}},
        {"partitions": [1]},
        {"partitions": [{"partition": 0, "replicas": [1]}]},
        {"partitions": [{"topic": 5, "partition": 0, "replicas": [1]}]},
        {"partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]},
        {"partitions": [{"topic": "t", "partition": 0, "replicas": []}]},
        {"partitions": [{"topic": "t", "partition": 0, "replicas": [2, 1, 2, 1, 9]}]},
        {"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": []}]},
    ],
    ids=lambda content: re.sub(r"[^a-z0-9]+", "-", json.dumps(content))[:40],
)
def test_bad_plans_are_refused_in_the_same_words(bench: Bench, content: object) -> None:
    """Errors in a file have the texts of Kafka's tool."""
    path = bench.file("bad", content)
    result = assert_same(bench, "--execute", "--reassignment-json-file", path)
    assert result.code == 1


def test_duplicates_are_refused_in_the_same_words_and_listed_in_order(bench: Bench) -> None:
    """Kafka's tool lists them in the order of a Java hash table."""
    entries = [{"topic": t, "partition": p, "replicas": [1]} for t in "abba" for p in (0, 7)]
    path = bench.file("bad", {"partitions": entries})
    arguments = ("--execute", "--reassignment-json-file", path)
    theirs, ours = bench.stock(*arguments), bench.ours(*arguments)
    assert ours.code == theirs.code == 1
    words, _, listed = ours.stdout.rstrip().rpartition(": ")
    yours, _, unsorted = theirs.stdout.rstrip().rpartition(": ")
    assert words == yours
    assert listed.split(",") == sorted(unsorted.split(","))


def test_a_missing_partition_next_to_the_last_is_reported(
    bench: Bench, make_topic: MakeTopic
) -> None:
    """Kafka's tool ends with "Index 2 out of bounds"."""
    topic = make_topic({0: (1, 2), 1: (2, 3)})
    result = bench.ours("--verify", "--reassignment-json-file", bench.plan(topic, {2: (1, 2)}))
    assert result.code == 0
    assert f"{topic}-2" in result.stdout


def test_what_is_not_there_is_refused_in_the_same_words(
    bench: Bench, make_topic: MakeTopic
) -> None:
    """Files, topics, partitions and brokers that do not exist."""
    topic = make_topic({0: (1, 2), 1: (2, 3)})
    execute = ("--execute", "--reassignment-json-file")
    verify = ("--verify", "--reassignment-json-file")
    for targets in ({0: (1, 99)}, {0: (1, 2), 5: (1, 2)}):
        assert assert_same(bench, *execute, bench.plan(topic, targets)).code == 1
    assert_same(bench, *verify, bench.plan(topic, {0: (1, 2), 5: (1, 2)}))
    nowhere = bench.plan("nowhere", {0: (1, 2)})
    assert assert_same(bench, *execute, nowhere).code == 1
    assert assert_same(bench, *verify, nowhere).code == 1
    assert assert_same(bench, *execute, "none.json").code == 1
    assert assert_same(bench, *execute, nowhere, "--throttle", "fast").code == 1
    assert assert_same(bench, *execute, nowhere, "--command-config", "none.properties").code == 1


def test_a_proposal_is_printed_alike(bench: Bench, make_topic: MakeTopic) -> None:
    """The present is the same to the byte; the proposal is another one, of the same form."""
    topic = make_topic({0: (1, 2), 1: (2, 3), 2: (3, 1)})
    topics = bench.file("topics", {"version": 1, "topics": [{"topic": topic}]})
    flags = ("--generate", "--topics-to-move-json-file", topics, "--broker-list")
    theirs, ours = bench.stock(*flags, "2,3,4"), bench.ours(*flags, "2,3,4")
    assert ours.code == theirs.code == 0
    mine, yours = ours.stdout.splitlines(), theirs.stdout.splitlines()
    assert mine[:4] == yours[:4]
    shape = [(p["topic"], p["partition"], p["log_dirs"]) for p in _partitions(yours[4])]
    assert [(p["topic"], p["partition"], p["log_dirs"]) for p in _partitions(mine[4])] == shape
    assert all(set(p["replicas"]) <= {2, 3, 4} for p in _partitions(mine[4]))
    assert len(mine) == len(yours)
    for brokers in ("1", "1,1,2", "1,x"):
        assert assert_same(bench, *flags, brokers).code == 1
    bad: list[object] = [{"topics": [{"topic": "nowhere"}]}, {"topics": [{}]}, {"version": 3}, "{"]
    for content in bad:
        path = bench.file("bad", content)
        again = ("--generate", "--topics-to-move-json-file", path, "--broker-list", "1,2")
        assert assert_same(bench, *again).code == 1


def _partitions(line: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(line)["partitions"]
    return found


# --- what moves ------------------------------------------------------------------------------


def test_both_tools_report_a_reassignment_alike_from_begin_to_end(
    bench: Bench, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Executed with a throttle, verified at its end, and moved back, by one tool and the other."""
    topic = make_topic({0: (1, 2), 1: (2, 3)})
    there = bench.plan(topic, {0: (1, 4), 1: (3, 5)}, "there")
    back = bench.plan(topic, {0: (1, 2), 1: (2, 3)}, "back")

    def transcript(tool: Tool) -> list[ToolResult]:
        said: list[ToolResult] = []
        for plan, options in ((there, ("--throttle", "100000000")), (back, ())):
            flags = ("--reassignment-json-file", plan)
            said.append(tool("--execute", *flags, *options))
            _await_idle(bench.cluster, topic)
            said.append(tool("--verify", *flags))
            assert configured(bench.cluster, f"topics/{topic}") == {}
        said.append(tool("--verify", "--reassignment-json-file", there, "--preserve-throttles"))
        return said

    theirs = transcript(bench.stock)
    daemons.start()
    assert transcript(bench.ours) == theirs


def test_both_tools_list_and_cancel_reassignments_alike(
    bench: Bench, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Listed, verified, refused a second time, called off, and where that leaves it."""
    topic = make_topic({0: (1, 2)})
    fill(bench.cluster, [(topic, 0)])
    flags = ("--reassignment-json-file", bench.plan(topic, {0: (3, 4)}))

    def transcript(tool: Tool) -> list[ToolResult]:
        said = [tool("--execute", *flags, "--throttle", SLOW)]
        eventually(
            lambda: is_reassigning(bench.cluster, topic), within_s=60, what="it is under way"
        )
        said += [tool("--list"), tool("--verify", *flags), tool("--execute", *flags)]
        said.append(tool("--cancel", *flags))
        _await_idle(bench.cluster, topic)
        assert bench.cluster.replicas(topic, 0) == [1, 2]
        said += [tool("--cancel", *flags, "--preserve-throttles"), tool("--verify", *flags)]
        assert configured(bench.cluster, f"topics/{topic}") == {}
        return said

    theirs = transcript(bench.stock)
    daemons.start()
    assert transcript(bench.ours) == theirs


def test_the_texts_of_the_zookeeper_tool_are_alike(
    bench: Bench, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """As in 2.3, with errors and their exit codes."""
    topic = make_topic({0: (1, 2), 1: (2, 3)})
    flags = ("--reassignment-json-file", bench.plan(topic, {0: (1, 4), 1: (3, 5)}))
    back = ("--reassignment-json-file", bench.plan(topic, {0: (1, 2), 1: (2, 3)}, "back"))
    empty = bench.file("empty", {"partitions": []})
    strange = bench.plan(topic, {0: (1, 99)}, "strange")
    absent = bench.plan(topic, {7: (1, 2)}, "absent")

    def transcript(tool: Tool) -> list[ToolResult]:
        said = [tool("--execute", *flags, "--throttle", "100000000")]
        _await_idle(bench.cluster, topic)
        said += [tool("--verify", *flags), tool("--verify", *back), tool("--execute", *back)]
        _await_idle(bench.cluster, topic)
        said.append(tool("--verify", *back))
        said += [
            tool("--execute", "--reassignment-json-file", path) for path in (empty, strange, absent)
        ]
        said += [tool("--execute"), tool("--execute", "--verify", *flags)]
        return said

    theirs = transcript(bench.old_stock)
    daemons.start()
    for mine, yours in zip(transcript(bench.ours_alone), theirs, strict=True):
        assert (mine.code, mine.stdout.splitlines()) == (yours.code, yours.stdout.splitlines())


def _await_idle(cluster: Cluster, topic: str) -> None:
    """Wait until nothing is reassigned, by whomever."""
    eventually(
        lambda: (
            not is_reassigning(cluster, topic)
            and not specs(cluster)
            and cluster.zk.exists("/admin/reassign_partitions") is None
        ),
        within_s=90,
        what=f"{topic} is where it is to be",
    )
