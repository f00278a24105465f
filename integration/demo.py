"""
``make demo``: a real ZooKeeper and five brokers, a plan that empties one of them, and the proof.

Everything is started here and ends here, also after Ctrl-C or a failure. The exit code is 0 only
when every line of the proof holds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from integration.rigs.audits import Audit, Record, audit, read_everything
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.kafka_jars import JarsUnavailableError, jars_directory
from integration.rigs.processes import dying_with_parent, exit_on_sigterm
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import GaveUpError, eventually

TOPICS: Final = {"orders": 8, "payments": 6, "clicks": 6}
LEAVING: Final = 5
"""The broker that is emptied."""
THROTTLE: Final = "2MB"
"""So low that the copies can be watched."""
PRELOAD_RECORDS: Final = 30_000
PRELOAD_BYTES: Final = 2_000
FIRST_KEY: Final = 1_000_000
"""Of the records that are produced during the plan; those before it are fewer."""
Assignment = dict[str, dict[int, list[int]]]

console = Console(highlight=False)


class Proof:
    """What was claimed and whether it holds."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, bool]] = []

    def add(self, claim: str, found: str, *, holds: bool) -> None:
        """Note one line."""
        self.lines.append((claim, found, holds))

    @property
    def holds(self) -> bool:
        """Whether all of it holds."""
        return all(holds for _, _, holds in self.lines)

    def table(self) -> Table:
        """Return it for the terminal."""
        table = Table(title="The proof", title_justify="left", show_header=False)
        for claim, found, holds in self.lines:
            table.add_row("[green]yes[/]" if holds else "[red]NO[/]", claim, found)
        return table


def spread(topics: dict[str, int], brokers: Sequence[int]) -> Assignment:
    """Assign three replicas to every partition, each broker in turn leading."""
    n = len(brokers)
    return {
        topic: {p: [brokers[(first + p + step) % n] for step in range(3)] for p in range(count)}
        for first, (topic, count) in enumerate(topics.items())
    }


def emptied(assignment: Assignment, leaving: int, staying: Sequence[int]) -> Assignment:
    """Return the partitions that have to move so that a broker holds nothing, spread evenly."""
    load = Counter(b for parts in assignment.values() for ids in parts.values() for b in ids)
    plan: Assignment = {}
    for topic, partitions in assignment.items():
        for number, ids in partitions.items():
            if leaving not in ids:
                continue
            free = min((b for b in staying if b not in ids), key=lambda b: (load[b], b))
            load[free] += 1
            plan.setdefault(topic, {})[number] = [free if b == leaving else b for b in ids]
    return plan


def plan_document(plan: Assignment) -> str:
    """Write a plan as the stock tool takes it."""
    entries = [
        {"topic": topic, "partition": number, "replicas": ids}
        for topic, partitions in plan.items()
        for number, ids in partitions.items()
    ]
    return json.dumps({"version": 1, "partitions": entries})


def say(text: str, started: float) -> None:
    """Print an event, with the seconds since the start."""
    console.print(f"[dim]{time.monotonic() - started:6.1f} s[/]  {text}", soft_wrap=True)


def execute(cluster: Cluster, plan: Path) -> int:
    """Submit the plan and follow it on this terminal, as an operator would."""
    command = [
        sys.executable,
        "-m",
        "controller.cli",
        "execute",
        str(plan),
        "--zookeeper",
        cluster.zookeeper_connect,
        "--throttle",
        THROTTLE,
        "--wait",
    ]
    return subprocess.run(dying_with_parent(command), check=False, timeout=150).returncode


def prove(
    cluster: Cluster, plan_file: Path, plan: Assignment, audited: Audit, pause_s: float
) -> Proof:
    """Look at the cluster itself, not at what the daemon says of it."""
    proof = Proof()
    moved = [(t, p, ids) for t, parts in plan.items() for p, ids in parts.items()]
    exact = sum(cluster.replicas(t, p) == ids for t, p, ids in moved)
    proof.add(
        "every partition of the plan has exactly its target replicas",
        f"{exact} of {len(moved)}",
        holds=exact == len(moved),
    )
    verified = cluster.reassign_partitions("--reassignment-json-file", str(plan_file), "--verify")
    completed = verified.stdout.count("is completed.")
    proof.add(
        "kafka-reassign-partitions --verify agrees",
        f"{completed} completed",
        holds=verified.code == 0 and completed == len(moved),
    )
    proof.add(
        "every acknowledged record can be read",
        f"{audited.acknowledged} acknowledged, {len(audited.missing)} missing, "
        f"{len(audited.duplicates)} twice, longest pause of a partition {pause_s:.1f} s",
        holds=audited.is_clean,
    )
    left = [d for d in cluster.replica_directories(LEAVING) if d.split("-")[0] in TOPICS]
    proof.add(
        f"broker {LEAVING} holds none of the topics' directories any more",
        ", ".join(left) or "none left",
        holds=not left,
    )
    controller = cluster.controller()
    proof.add(
        "a broker is the controller again",
        f"broker {controller}",
        holds=controller in cluster.brokers,
    )
    admin = [
        path
        for path in ("/admin/reassign_partitions", "/admin/reassignments")
        if _has_content(cluster, path)
    ]
    proof.add("no reassignment znode is left", ", ".join(admin) or "none left", holds=not admin)
    return proof


def _has_content(cluster: Cluster, path: str) -> bool:
    if cluster.zk.exists(path) is None:
        return False
    return path.endswith("partitions") or any(
        cluster.zk.get_children(f"{path}/{topic}") for topic in cluster.zk.get_children(path)
    )


def phases_of(daemon: Daemon) -> Iterator[str]:
    """Give the phases one partition went through, from the daemon's log."""
    for line in daemon.log.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry.get("event") == "phase" and entry.get("topic") == "orders":
            yield (
                f"orders-{entry.get('partition')}  {entry.get('before')} -> {entry.get('phase')}"
                f"  replicas {entry.get('replicas')}  leader {entry.get('leader')}"
                f"  isr {entry.get('isr')}  leader epoch {entry.get('leader_epoch')}"
            )


def preload(cluster: Cluster, report: Callable[[str], None]) -> Sequence[Record]:
    """Put some data into the topics, so there is something to copy; return what was written."""
    with Traffic(
        cluster.bootstrap_servers,
        TOPICS,
        records_per_s=20_000,
        payload_bytes=PRELOAD_BYTES,
    ) as filling:
        eventually(lambda: len(filling.acknowledged) >= PRELOAD_RECORDS, within_s=60)
        filling.stop()
    report(f"{len(filling.acknowledged) * PRELOAD_BYTES // 1_000_000} MB of data written")
    return filling.acknowledged


def run(stack: ExitStack) -> bool:
    """Do it all; everything entered on the stack is undone by the caller."""
    started = time.monotonic()
    jars_directory(report=lambda text: say(f"Kafka's jars: {text}", started))
    say("starting ZooKeeper 3.8 and five brokers of Kafka 3.9.1", started)
    cluster = stack.enter_context(Cluster.running())
    assignment = spread(TOPICS, tuple(cluster.brokers))
    for topic, partitions in assignment.items():
        cluster.create_topic(topic, partitions, {"min.insync.replicas": "2"})
    say(f"topics {', '.join(TOPICS)}: {sum(TOPICS.values())} partitions, three replicas", started)
    before = preload(cluster, lambda text: say(text, started))

    daemon = Daemon(
        cluster.zookeeper_connect,
        cluster.directory / "reassigner",
        "--tenure-linger",
        "2",
        "--max-partitions-in-flight",
        "4",
    )
    stack.callback(daemon.kill)
    daemon.start()
    say(
        f"reassigner is ready: {daemon.url}  (the controller is broker {cluster.controller()})",
        started,
    )
    staying = tuple(b for b in cluster.brokers if b != LEAVING)
    plan = emptied(assignment, LEAVING, staying)
    plan_file = cluster.directory / "plan.json"
    plan_file.write_text(plan_document(plan), encoding="utf-8")
    with Traffic(
        cluster.bootstrap_servers, TOPICS, records_per_s=1_000, first_key=FIRST_KEY
    ) as traffic:
        time.sleep(2)
        say(
            f"plan that empties broker {LEAVING}: "
            f"reassigner execute plan.json --throttle {THROTTLE} --wait",
            started,
        )
        code = execute(cluster, plan_file)
        say(f"reassigner execute ended with exit code {code}", started)
        time.sleep(1)
        traffic.stop()
    eventually(lambda: cluster.controller() in cluster.brokers, within_s=30)
    eventually(
        lambda: not any(d.split("-")[0] in TOPICS for d in cluster.replica_directories(LEAVING)),
        within_s=30,
    )
    console.print("\nThe way of one partition, from the daemon's log:")
    lines = list(phases_of(daemon))
    first = lines[0].split()[0] if lines else ""
    for line in lines:
        if line.split()[0] == first:
            console.print(f"  {line}", soft_wrap=True)
    readable = read_everything(cluster.bootstrap_servers, TOPICS)
    audited = audit([*before, *traffic.acknowledged], readable)
    proof = prove(cluster, plan_file, plan, audited, traffic.longest_pause_s)
    proof.add("the submission was carried out", f"exit code {code}", holds=code == 0)
    stopped = daemon.stop()
    proof.add("the daemon stops cleanly", f"exit code {stopped}", holds=stopped == 0)
    console.print()
    console.print(proof.table())
    say("done, cleaning up", started)
    return proof.holds


def main() -> int:
    """Run the demonstration and clean up, whatever happens."""
    argparse.ArgumentParser(prog="make demo", description=__doc__).parse_args()
    exit_on_sigterm()
    try:
        with ExitStack() as stack:
            return 0 if run(stack) else 1
    except KeyboardInterrupt:
        console.print("\ninterrupted; everything is cleaned up")
        return 130
    except (JarsUnavailableError, GaveUpError) as error:
        console.print(f"[red]the demonstration failed:[/] {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
