"""
The laws of a topic that is deleted and created again.

A step belongs to the very topic (czxid) that its reassignment was accepted for; a topic is deleted
with its marker, and after the logs of all live brokers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.explore import production as p
from tests.explore.operator_actions import MARKER
from tests.explore.system import PARTITION, TOPIC_PATH, System
from tests.explore.zookeeper import Znode

RECORD = p.paths.reassignment_path(PARTITION)


def topic_laws(system: System) -> Iterator[str]:
    """Judge the writes to a topic's znode and to its marker; a topic that is gone has no data."""
    others = {b.session for b in system.brokers.values()} | {p.NO_SESSION}
    for session, path, old, new in system.zookeeper.written:
        is_daemons = session not in others
        if path == TOPIC_PATH and new is None:
            system.committed, system.serving = (), (-1, ())
            if is_daemons:
                yield from _deleted(system, old)
        elif path == TOPIC_PATH and is_daemons and old is not None and new is not None:
            yield from _rewritten(system, old, new)
        elif path == MARKER and new is None and is_daemons:
            topic = system.zookeeper.get(TOPIC_PATH)
            # One that was created after the marker was not asked for.
            if topic is not None and old is not None and topic.czxid < old.czxid:
                yield "a marker is deleted, and its topic is not"


def _deleted(system: System, topic: Znode | None) -> Iterator[str]:
    marker = next((was for _, path, was, _ in system.zookeeper.written if path == MARKER), None)
    if not _ends_marker(system):
        yield "a topic is deleted, and its marker is not deleted with it"
    if marker is not None and topic is not None and marker.czxid < topic.czxid:
        yield "a topic is deleted, and it was created after its marker"
    for broker in system.brokers.values():
        if broker.is_alive and PARTITION in broker.logs:
            yield f"a topic is deleted, and broker {broker.id} has a log of it"


def _ends_marker(system: System) -> bool:
    return any(path == MARKER and new is None for _, path, _, new in system.zookeeper.written)


def _rewritten(system: System, old: Znode, new: Znode) -> Iterator[str]:
    before: Any = p.read_topic(old)  # type: ignore[arg-type]
    after: Any = p.read_topic(new)  # type: ignore[arg-type]
    record = system.zookeeper.get(RECORD) or next(
        (was for _, path, was, _ in system.zookeeper.written if path == RECORD), None
    )
    if record is None or before.partitions == after.partitions:
        return
    if json.loads(record.data)["topic_czxid"] != new.czxid:
        yield f"a reassignment of a former topic writes {after.partitions[0]}"


def logs_deleted(system: System, number: int) -> Iterator[str]:
    """Judge the deletion of a log with its topic: from then on nothing is promised."""
    system.committed = ()
    marker, topic = system.zookeeper.get(MARKER), system.zookeeper.get(TOPIC_PATH)
    is_newer = marker is not None and topic is not None and topic.czxid > marker.czxid
    if is_newer and system.kafka is None:
        yield f"broker {number} deletes a log of a topic that was created after its marker"
    if system.data(MARKER) is None and not _ends_marker(system):
        yield f"broker {number} deletes a log as its topic is to be deleted, without a marker"
