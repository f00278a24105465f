"""
Real runs are judged, and a log or a journal with one wrong line fails.

A simulated run is written as ZooKeeper writes its transaction log, and read as tests on real
brokers read theirs.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from controller.reactor.ports import Check, Create, Delete
from integration.rigs.conformance import assert_conforming
from tests.doctor.test_journal_checks import EXCLUDED, WHOLE
from tests.sim.test_recorded import STATE, Recorded, Tamper, _put, recording
from tests.sim.zookeeper import AnyOperation, Make

OURS: Final = ("/reassigner", "/admin/reassignments")
DAEMON: Final = next(
    r.session for r in recording() if r.operations[0].path == f"{OURS[0]}/leader/lock"
)
CREATE, DELETE, SET_DATA, CHECK, MULTI = 1, 2, 5, 13, 14


class RecordedCluster:
    """What the judgement needs to know of a cluster: where its transaction log is."""

    def __init__(self, directory: Path) -> None:
        self.zookeepers = [SimpleNamespace(data_directory=directory)]
        self.options = SimpleNamespace(
            broker=SimpleNamespace(uses_alter_partition=False), chroot=""
        )


def text(value: str | bytes) -> bytes:
    """Return bytes that are led by their length."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">i", len(data)) + data


def encoded(operation: AnyOperation, versions: dict[str, int]) -> bytes:
    """Return one operation of a multi; ``versions`` are those of the znodes before it."""
    path = operation.path
    match operation:
        case Check(_, version):
            kind, body = CHECK, text(path) + struct.pack(">i", version + 1)
        case Delete():
            versions.pop(path, None)
            kind, body = DELETE, text(path)
        case Make() | Create():
            versions[path] = 0
            is_ephemeral = isinstance(operation, Make) and operation.ephemeral
            kind, body = CREATE, text(path) + text(operation.data)
            body += struct.pack(">i?i", 0, is_ephemeral, 1)
        case _:
            versions[path] = versions.get(path, 0) + 1
            kind, body = SET_DATA, text(path) + text(operation.data)
            body += struct.pack(">i", versions[path])
    return struct.pack(">i", kind) + text(body)


def transaction_log(recorded: Iterable[Recorded]) -> bytes:
    """Return a file of transactions."""
    versions: dict[str, int] = {}
    log, last = bytes(16), 0
    for present, session, at_s, operations in recorded:
        # What a simulated world begins with shares numbers, and parents belong to no session.
        if not session and operations[0].path.startswith(OURS):
            session = DAEMON  # noqa: PLW2901 - the one that makes them
        zxid = last = present if present > last and at_s else last + 1
        body = struct.pack(">qiqqi", session, 0, zxid, int(at_s * 1000), MULTI)
        body += struct.pack(">i", len(operations))
        body += b"".join(encoded(operation, versions) for operation in operations)
        log += struct.pack(">qi", 0, len(body)) + body + b"B"
    return log


def tampered(path: str, tamper: Tamper) -> Iterator[Recorded]:
    """Yield the transactions; the second one that writes a znode differs."""
    writes = 0
    for one in recording():
        is_written = any(op.path == path and not isinstance(op, Check) for op in one.operations)
        writes += is_written
        is_other = is_written and writes == 2
        yield one._replace(operations=tamper(one.operations)) if is_other else one


def judge(directory: Path, recorded: Iterable[Recorded], lines: Iterable[Any]) -> None:
    """Judge a run, as ``Daemons.close`` does."""
    log, journal = directory / "version-2" / "log.1", directory / "journal" / "journal.jsonl"
    for file in (log, journal):
        file.parent.mkdir()
    log.write_bytes(transaction_log(recorded))
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert_conforming(RecordedCluster(directory), directory)  # type: ignore[arg-type] # enough of one


def test_a_run_that_breaks_no_rule_passes(tmp_path: Path) -> None:
    """Of the transactions and of the journal."""
    judge(tmp_path, recording(), WHOLE)


TAMPERED: Final = {
    "leader epoch": ("does not raise leader epoch", _put(STATE, leader_epoch=7)),
    "controller epoch": ("is not of controller epoch", _put(STATE, controller_epoch=99)),
    "leader": ("leader outside the ISR", _put(STATE, leader=2, isr=[1, 3])),
    "copies": ("good copies", _put(STATE, leader=3, isr=[3])),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_transaction_that_breaks_a_rule_is_found(name: str, tmp_path: Path) -> None:
    """One member of one znode differs."""
    why, tamper = TAMPERED[name]
    with pytest.raises(AssertionError, match=why):
        judge(tmp_path, tampered(STATE, tamper), WHOLE)


def test_a_journal_line_that_breaks_a_rule_is_found(tmp_path: Path) -> None:
    """The leader drops a replica before the added one is in sync."""
    lines = [{**EXCLUDED, "isr": [2]} if line is EXCLUDED else line for line in WHOLE]
    with pytest.raises(AssertionError, match="journal"):
        judge(tmp_path, recording(), lines)
