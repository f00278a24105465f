"""One look at brokers' disks and topics' settings, over real sockets."""

from __future__ import annotations

import threading

import pytest
from kafka.protocol.admin import DescribeConfigsResponse, DescribeLogDirsResponse

from controller.brokers.connection_settings import ConnectionSettings, ListenerChoice
from controller.brokers.surveys import (
    SILENT,
    disks_of,
    query_brokers,
    query_min_insync,
    query_protocols,
)
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import BrokerEpoch, BrokerId, LogDir
from controller.doctor.broker_answers import Disks, Protocol
from tests.brokers.fakes import Answer, Drop, FakeBroker, Garbage, Hold, Reaction, Received
from tests.core.builders import tp

UNDERSTOOD = {18: (0, 3), 32: (0, 2), 35: (0, 1)}
ONE, TWO = BrokerId(1), BrokerId(2)
PLAIN = ConnectionSettings(listeners=ListenerChoice(control_plane_listener="CONTROLLER"))


def answered(received: Received) -> Reaction:
    """Answer as a broker with one good and one failed log directory."""
    if received.api_key == 35:
        rows = [
            (0, "/data/a", [("t", [(0, 100, 0, False), (1, 100, 0, True)]), ("u", [])]),
            (56, "/data/b", []),
        ]
        return Answer(
            DescribeLogDirsResponse(version=received.version, throttle_time_ms=0, results=rows)
        )
    config: list[tuple[object, ...]] = [
        ("min.insync.replicas", "2", False, 5, False, []),
        ("unclean.leader.election.enable", "false", False, 5, False, []),
    ]
    results = [(0, None, 2, "t", config), (29, "not allowed", 2, "closed", [])]
    return Answer(
        DescribeConfigsResponse(version=received.version, throttle_time_ms=0, results=results)
    )


def test_disks_and_settings_are_read() -> None:
    """A copy on its way to another disk is none; the control plane's listener is not asked."""
    with FakeBroker(1, answered, UNDERSTOOD) as broker:
        answers = query_brokers(PLAIN, [broker.registration()], ["t", "closed"], within_s=10)
    dirs = (LogDir("/data/a", logs=2), LogDir("/data/b", is_failed=True))
    placed = {tp(): "/data/a"}
    futures = {tp(1): "/data/a"}
    disks = Disks(frozenset({tp()}), ("/data/b",), {tp(): 100}, dirs, placed, futures)
    assert answers.disks == {ONE: disks}
    assert answers.min_insync_replicas == {"t": 2, "closed": "error 29: not allowed"}


@pytest.mark.parametrize("fetch", [16, 17])
def test_the_protocol_of_each_broker_is_read(fetch: int) -> None:
    """And whether its release is the one from which clusters are migrated to KRaft."""

    def describe(received: Received) -> Reaction:
        config: list[tuple[object, ...]] = [
            ("inter.broker.protocol.version", "3.8-IV0", False, 5, False, [])
        ]
        found = [(0, None, 4, "1", config)]
        return Answer(
            DescribeConfigsResponse(version=received.version, throttle_time_ms=0, results=found)
        )

    with FakeBroker(1, describe, {**UNDERSTOOD, 1: (0, fetch)}) as broker:
        answers = query_protocols(PLAIN, [broker.registration()], within_s=10)
    assert answers == {ONE: Protocol("3.8-IV0", is_bridge=fetch == 17)}


def test_a_protocol_that_may_not_be_read_has_the_reason() -> None:
    """As has one of a broker that does not answer."""

    def refuse(received: Received) -> Reaction:
        found: list[tuple[object, ...]] = [(31, "not allowed", 4, "1", [])]
        return Answer(
            DescribeConfigsResponse(version=received.version, throttle_time_ms=0, results=found)
        )

    with (
        FakeBroker(1, refuse, UNDERSTOOD) as broker,
        FakeBroker(2, lambda _: Drop(), UNDERSTOOD) as dropping,
    ):
        both = [broker.registration(), dropping.registration()]
        answers = query_protocols(PLAIN, both, within_s=10)
    assert answers[ONE] == "error 31: not allowed"
    assert isinstance(answers[TWO], str)


def test_settings_alone_are_read_without_the_disks() -> None:
    """A caller that reads the disks in another way does not make every broker list them twice."""
    with FakeBroker(1, answered, UNDERSTOOD) as broker:
        found = query_min_insync(PLAIN, [broker.registration()], ["t", "closed"], within_s=10)
        requested = {broker.received.get_nowait().api_key for _ in range(broker.received.qsize())}
    assert found == {"t": 2, "closed": "error 29: not allowed"}
    assert 32 in requested
    assert 35 not in requested


def test_a_broker_that_fails_does_not_delay_the_others() -> None:
    """Each is reported with its reason; the settings come from the next broker that answers."""
    nowhere = Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT")
    dead = LiveBroker(BrokerId(0), BrokerEpoch(1), (nowhere,))
    with (
        FakeBroker(1, answered, UNDERSTOOD) as good,
        FakeBroker(2, lambda _: Drop(), UNDERSTOOD) as dropping,
    ):
        requested = [dead, good.registration(), dropping.registration()]
        answers = query_brokers(PLAIN, requested, ["t"], within_s=10)
    assert isinstance(answers.disks[ONE], Disks)
    assert isinstance(answers.disks[TWO], str)
    assert isinstance(answers.disks[BrokerId(0)], str)
    assert answers.min_insync_replicas == {"t": 2}


def test_brokers_that_know_the_space_of_volumes_report_it() -> None:
    """From version 4 on, with the directory of each replica."""

    def spacious(received: Received) -> Reaction:
        if received.api_key != 35:
            return answered(received)
        rows = [(0, "/data/a", [("t", [(0, 100, 0, False)])], 5000, 4000)]
        return Answer(
            DescribeLogDirsResponse(version=4, throttle_time_ms=0, error_code=0, results=rows)
        )

    with FakeBroker(1, spacious, {**UNDERSTOOD, 35: (0, 4)}) as broker:
        answers = query_brokers(PLAIN, [broker.registration()], ["t"], within_s=10)
    disks = answers.disks[ONE]
    assert isinstance(disks, Disks)
    assert disks.dirs == (LogDir("/data/a", 5000, 4000, 1),)
    assert disks.placed == {tp(): "/data/a"}


def test_malformed_responses_are_reported() -> None:
    """And not taken for an empty disk."""
    with FakeBroker(1, lambda _: Garbage(b"\xff"), UNDERSTOOD) as broker:
        answers = query_brokers(PLAIN, [broker.registration()], [], within_s=10)
    assert isinstance(answers.disks[ONE], str)
    assert answers.min_insync_replicas == {}


def test_a_silent_broker_ends_the_wait_in_time() -> None:
    """What is not known by then is reported as unknown."""
    released = threading.Event()

    def holding(received: Received) -> Reaction:
        reaction = answered(received)
        return Hold(released, reaction) if isinstance(reaction, Answer) else reaction

    with FakeBroker(1, holding, UNDERSTOOD) as broker:
        answers = query_brokers(PLAIN, [broker.registration()], ["t"], within_s=1.0)
        released.set()
    assert answers.disks == {ONE: SILENT}
    assert answers.min_insync_replicas == {"t": SILENT}


def test_no_log_directory_means_no_permission() -> None:
    """A broker always has one; version 1 has no other way to refuse."""
    answer = DescribeLogDirsResponse(version=1, throttle_time_ms=0, results=[])
    assert "not allowed" in str(disks_of(answer))
