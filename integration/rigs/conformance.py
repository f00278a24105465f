"""
Whether each write of a real run was one that the daemon may make.

Every test and campaign with daemons ends with this (``Daemons.close``, ``running_daemon``).
ZooKeeper's transaction log is judged twice: by ``write_laws``, without the project's own code, and
by the rules of the simulation that see only znodes (``tests/sim/recorded.py``). The journals are
judged as ``doctor --journal`` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from controller.cli.diagnosis import findings_of_journal
from controller.doctor.findings import Severity
from integration.rigs.cluster import Cluster
from integration.rigs.transaction_log import LoggedTransaction, transactions_of, writes_in
from integration.rigs.write_laws import broken_laws
from tests.sim.recorded import RecordedRun
from tests.sim.zookeeper import AnyOperation


@dataclass(slots=True)
class _Replay:
    run: RecordedRun = field(default_factory=RecordedRun)
    zxid: int = 0
    """That of the last transaction."""


_REPLAYS: Final[WeakKeyDictionary[Cluster, _Replay]] = WeakKeyDictionary()


def assert_conforming(cluster: Cluster, directory: Path) -> None:
    """Judge what daemons wrote to a cluster, and their journals below a directory."""
    broken = [*violations(cluster), *broken_steps(directory)]
    assert not broken, "\n".join(broken)


def violations(cluster: Cluster) -> list[str]:
    """Return in words the laws that daemons broke, and the rules they broke since the last call."""
    # The log of an ensemble's member may have had gaps that are filled by now.
    is_ensemble = len(cluster.zookeepers) > 1
    replay = _Replay() if is_ensemble else _REPLAYS.setdefault(cluster, _Replay())
    uses_alter_partition = cluster.options.broker.uses_alter_partition
    history, chroot = transactions_of(cluster.zookeepers), cluster.options.chroot
    laws = broken_laws(writes_in(history, chroot), uses_alter_partition=uses_alter_partition)
    return [*laws, *_violations(replay, history, chroot)]


def broken_steps(directory: Path) -> list[str]:
    """Return in words each step that breaks a rule in the journals below a directory."""
    journals = {file.parent for file in directory.rglob("journal.jsonl")}
    found = [f for journal in sorted(journals) for f in findings_of_journal(journal)]
    return [str(finding) for finding in found if finding.severity is not Severity.INFO]


def _violations(replay: _Replay, history: list[LoggedTransaction], chroot: str) -> Iterator[str]:
    replay.run.session_ends |= {h.session: h.at_ms / 1000 for h in history if h.ends_session}
    for logged in history:
        if logged.zxid <= replay.zxid:
            continue
        replay.zxid = logged.zxid
        operations = tuple(
            _below(chroot, op) for op in logged.operations if op.path.startswith(f"{chroot}/")
        )
        if operations:
            at_s = logged.at_ms / 1000
            yield from replay.run.replay(logged.zxid, logged.session, at_s, operations)
        if logged.ends_session:
            replay.run.end_session(logged.session, logged.zxid)


def _below(chroot: str, operation: AnyOperation) -> AnyOperation:
    return replace(operation, path=operation.path.removeprefix(chroot))
