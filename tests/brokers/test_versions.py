"""The choice of request versions."""

from __future__ import annotations

import itertools

import pytest

from controller.brokers.messages import (
    BY_PROTOCOL,
    Versions,
    common_versions,
    sent_versions,
    versions_of,
)
from controller.errors import InvalidInputError, NativeRefusedError

KAFKA_3_9 = {4: (0, 7), 5: (0, 4), 6: (0, 8)}


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ("1.0", (1, 0, 4)),
        ("2.1-IV2", (1, 0, 4)),
        ("2.2-IV1", (2, 1, 5)),
        ("2.3", (2, 1, 5)),
        ("2.4-IV0", (3, 1, 5)),
        ("2.4", (4, 2, 6)),
        ("2.5-IV0", (4, 2, 6)),
        ("2.6", (4, 3, 6)),
        ("2.8-IV0", (4, 3, 6)),
        ("2.8", (5, 3, 7)),
        ("3.3-IV3", (6, 3, 7)),
        ("3.9", (7, 4, 8)),
    ],
)
def test_protocol_dictates_the_versions(protocol: str, expected: tuple[int, int, int]) -> None:
    """Each inter-broker protocol gives the versions Kafka's own controller would send."""
    assert versions_of(protocol) == expected


@pytest.mark.parametrize("protocol", ["", "latest", "2", "2.6-", "v2.6", "2.6-IV0x", "²·⁶"])
def test_text_that_is_no_protocol_is_refused(protocol: str) -> None:
    """A malformed setting is refused with what was expected."""
    with pytest.raises(InvalidInputError, match="is not an inter-broker protocol version"):
        versions_of(protocol)


@pytest.mark.parametrize("protocol", ["0.11.0-IV2", "0.10.2", "0.9.0"])
def test_protocol_older_than_supported_is_refused(protocol: str) -> None:
    """Below 1.0 nothing is spoken."""
    with pytest.raises(NativeRefusedError, match=r"older than 1\.0-IV0"):
        versions_of(protocol)


def test_protocols_are_listed_in_ascending_order() -> None:
    """The table is searched for its last fitting row."""
    rows = [versions for _, versions in BY_PROTOCOL]
    assert all(
        below <= above
        for low, high in itertools.pairwise(rows)
        for below, above in zip(low, high, strict=True)
    )


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ("2.3", (4, 3, 6)),
        ("2.6", (4, 3, 6)),
        ("2.7", (4, 3, 6)),
        ("2.8", (5, 3, 7)),
        ("3.9", (7, 4, 8)),
    ],
)
def test_requests_follow_the_protocol(protocol: str, expected: tuple[int, int, int]) -> None:
    """As from Kafka's controller; but a StopReplica always has leader epochs, where understood."""
    assert sent_versions(protocol) == expected


def test_newer_broker_is_spoken_to_as_the_protocol_says() -> None:
    """Kafka 3.9 binaries at protocol 2.6 get the requests of 2.6."""
    assert common_versions(KAFKA_3_9, versions_of("2.6")) == Versions(4, 3, 6)


def test_older_broker_is_spoken_to_as_it_understands() -> None:
    """A 2.3 broker gets its own highest versions whatever the cap."""
    assert common_versions({4: (0, 2), 5: (0, 1), 6: (0, 5)}, versions_of("2.6")) == Versions(
        2, 1, 5
    )


def test_broker_without_controller_requests_is_refused() -> None:
    """A KRaft broker (4.0) does not serve LeaderAndIsr at all."""
    with pytest.raises(NativeRefusedError, match="does not serve LeaderAndIsr"):
        common_versions({18: (0, 4)}, versions_of("2.6"))


@pytest.mark.parametrize("understood", [(5, 9), (0, 0), (3, 1), (-7, -3)])
def test_no_common_version_is_refused(understood: tuple[int, int]) -> None:
    """Ranges that do not meet, and nonsense ranges, are refused with both ranges."""
    with pytest.raises(NativeRefusedError, match="no common version of LeaderAndIsr"):
        common_versions({**KAFKA_3_9, 4: understood}, versions_of("2.6"))
