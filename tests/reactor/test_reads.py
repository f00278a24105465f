"""The reads that follow rejected writes, each requested once."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import cast

import pytest

from controller.core.effects import ReadPurpose, ReadStates, ReadTopics
from controller.core.model import BrokerId, RequestId, TopicPartition, ZkVersion
from controller.core.pacing.throttle_settings import topic_entity
from controller.reactor import group_commit, znode_operations
from controller.reactor.ports import Check, Store, ZnodeFamily
from controller.reactor.reads import (
    LOST_MAX,
    RaceCounts,
    Reads,
    reread_concerned,
    reread_own_records,
)
from controller.znodes import paths
from tests.core.builders import tp
from tests.reactor.stores import NotingStore


class RequestedReads:
    """Notes the reads that are requested."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def read_topics(self, topics: Sequence[str], *, read_generation: int) -> None:
        """Note it."""
        self.calls.append((topics, read_generation))

    def read_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool, read_generation: int
    ) -> None:
        """Note it."""
        self.calls.append((partitions, watch, read_generation))


def test_each_kind_is_requested_once_and_topics_first() -> None:
    """One read per znode would be one round trip each; a watched znode is read once."""
    requested = RequestedReads()
    reads = Reads(cast("Store", requested))
    reads.add(ReadStates((tp(0),), ReadPurpose.WATCH))
    reads.add(ReadStates((tp(2), tp(0)), ReadPurpose.CONFLICT))
    reads.add(ReadTopics(("t",)))
    reads.add(ReadStates((tp(1), tp(0)), ReadPurpose.WATCH))
    reads.send(7)
    assert requested.calls == [(("t",), 7), ((tp(0), tp(1)), True, 7), ((tp(2),), False, 7)]
    reads.send(8)
    assert len(requested.calls) == 3


@pytest.mark.parametrize(
    ("path", "znodes"),
    [
        (paths.LEGACY_PLAN, [ZnodeFamily.LEGACY_PLAN]),
        (paths.QUEUE, [ZnodeFamily.QUEUE]),
        (paths.DRAINS, [ZnodeFamily.CONTROLS]),
        (paths.CANCEL, [ZnodeFamily.CANCELLATION]),
        (paths.reassignment_path(TopicPartition("t", 0)), [ZnodeFamily.SPECS]),
        (paths.submission_path("request_1"), [ZnodeFamily.SUBMISSIONS]),
        (paths.outcome_path(RequestId("r")), [ZnodeFamily.HISTORY]),
        (paths.applied_throttle_path(topic_entity("t")), [ZnodeFamily.APPLIED_THROTTLES]),
        (paths.orphan_path(BrokerId(1), TopicPartition("t", 0)), [ZnodeFamily.ORPHANS]),
        (paths.PREFERRED_ELECTION, [ZnodeFamily.PREFERRED_ELECTION]),
        (paths.deletion_path("t"), [ZnodeFamily.DELETIONS]),
        (paths.PRODUCER_IDS, [ZnodeFamily.PRODUCER_IDS]),
        (paths.part_path(RequestId("r"), "request_1"), [ZnodeFamily.HISTORY]),
        (paths.history_path(RequestId("r")), [ZnodeFamily.HISTORY]),
        (paths.topic_path("t"), []),
        (paths.state_path(TopicPartition("t", 0)), []),
        *((path, []) for path in paths.NOTIFICATION_DIRECTORIES.values()),
        (paths.NEW_ANNOUNCEMENT, []),
    ],
)
def test_what_the_write_was_about_is_read(path: str, znodes: list[ZnodeFamily]) -> None:
    """A path that only has the same prefix is not read."""
    store = NotingStore()
    reread_concerned(store, path)
    assert (store.znodes, store.entities) == (znodes, [])


def test_the_list_above_has_every_path_that_is_written() -> None:
    """A znode without a root in ``reads`` would stay as it was before the rejected write."""

    def named_in(module: ModuleType) -> set[str]:
        return set(re.findall(r"paths\.(\w+_path|[A-Z_]+)", inspect.getsource(module)))

    written = named_in(znode_operations) | named_in(group_commit)
    assert written - named_in(sys.modules[__name__]) == set()


def test_settings_are_read_of_the_one_entity() -> None:
    """An operator wrote the settings first."""
    for path in (paths.entity_config_path(topic_entity("t")), paths.topic_config_path("t")):
        store = NotingStore()
        reread_concerned(store, path)
        assert (store.znodes, store.entities) == ([], [topic_entity("t")])


def test_our_own_records_are_the_unwatched_znodes() -> None:
    """These are specs, orphans, accepted entries and applied throttles."""
    store = NotingStore()
    reread_own_records(store)
    assert set(store.znodes) == {
        ZnodeFamily.SPECS,
        ZnodeFamily.ORPHANS,
        ZnodeFamily.HISTORY,
        ZnodeFamily.APPLIED_THROTTLES,
    }


def test_what_is_refused_again_and_again_is_left_for_a_while() -> None:
    """Another read does not help; a successful write ends the back-off."""
    races = RaceCounts()
    assert not any(races.is_stubborn("/a") for _ in range(LOST_MAX - 1))
    races.reset_counts([Check("/b", ZkVersion(0))])
    assert races.is_stubborn("/a")
    assert races.take_stubborn() == {"/a"}
    assert races.take_stubborn() == set()
    assert not any(races.is_stubborn("/a") for _ in range(LOST_MAX - 1))
    races.reset_counts([Check("/a", ZkVersion(0))])
    assert not races.is_stubborn("/a")
