"""The codecs of pauses, limits, the throttle and drains."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import BrokerId, RequestId, TopicPartition, ZkVersion, Zxid
from controller.core.pacing.controls import (
    BrokerLimits,
    Drain,
    Drains,
    Evacuation,
    Evacuations,
    Limits,
    Pause,
    Pauses,
    QueueOrder,
    Quiesce,
    RequestLimits,
    UnderMinIsr,
)
from controller.core.requests.submissions import AUTO, Window
from controller.znodes.operator_controls import (
    CommonThrottle,
    decode_drains,
    decode_evacuated,
    decode_evacuations,
    decode_limits,
    decode_pauses,
    decode_throttle,
    encode_drains,
    encode_evacuations,
    encode_limits,
    encode_pauses,
    encode_throttle,
)
from tests.znodes.strategies import (
    ANY_BYTES,
    BROKERS,
    COUNTS,
    PRIORITIES,
    RATES,
    REQUESTS,
    STEP_SIZES,
    WINDOWS,
    WORDS,
    document,
)

PAUSE = st.builds(Pause, WORDS, WORDS, st.integers(0, 2**63 - 1))
TIMES = st.integers(0, 2**63 - 1)
PAUSES = st.builds(
    Pauses,
    st.none() | PAUSE,
    st.dictionaries(REQUESTS, PAUSE, max_size=3),
    st.dictionaries(BROKERS, PAUSE, max_size=3),
    st.none() | st.builds(Quiesce, WORDS, WORDS, TIMES, st.none() | TIMES),
)
BROKER_LIMITS = st.builds(
    BrokerLimits,
    max_incoming=st.none() | st.integers(0, 9),
    max_outgoing=st.none() | st.integers(0, 9),
)
REQUEST_LIMITS = st.builds(
    RequestLimits,
    priority=st.none() | PRIORITIES,
    step_size=st.none() | STEP_SIZES,
    max_partitions_in_flight=st.none() | COUNTS,
    throttle=st.none() | RATES,
    window=st.none() | WINDOWS,
)
LIMITS = st.builds(
    Limits,
    max_partitions_in_flight=st.none() | COUNTS,
    max_incoming_per_broker=st.none() | COUNTS,
    max_outgoing_per_broker=st.none() | COUNTS,
    max_bytes_in_flight=st.none() | RATES,
    max_leader_moves_per_broker_per_second=st.none() | COUNTS,
    under_min_isr=st.none() | st.sampled_from(UnderMinIsr),
    step_size=st.none() | STEP_SIZES,
    order=st.none() | st.sampled_from(QueueOrder),
    window=st.none() | WINDOWS,
    brokers=st.dictionaries(BROKERS, BROKER_LIMITS, max_size=3),
    requests=st.dictionaries(REQUESTS, REQUEST_LIMITS, max_size=3),
)
DRAINS = st.builds(
    Drains,
    st.dictionaries(BROKERS, st.builds(Drain, WORDS, WORDS, TIMES, WORDS), max_size=3),
    st.none() | RATES,
    st.none() | WINDOWS,
    st.just(ZkVersion(3)),
    st.just(Zxid(77)),
)
EVACUATIONS = st.builds(
    Evacuations,
    st.dictionaries(BROKERS, st.builds(Evacuation, WORDS, WORDS, TIMES, st.booleans()), max_size=3),
    st.just({TopicPartition("t", 0): (BrokerId(1), BrokerId(2))}) | st.just({}),
)
HERE = (ZkVersion(3), Zxid(77))
"""The version and the creation of the znode."""


@given(PAUSES)
def test_pauses_come_back_as_they_were_written(pauses: Pauses) -> None:
    """A round trip loses nothing."""
    assert decode_pauses(encode_pauses(pauses)) == pauses


@given(LIMITS)
def test_limits_come_back_as_they_were_written(limits: Limits) -> None:
    """A round trip loses nothing, and what was not set stays unset."""
    assert decode_limits(encode_limits(limits)) == limits


@given(RATES)
def test_the_throttle_comes_back_as_it_was_written(rate: int) -> None:
    """A round trip loses nothing."""
    assert decode_throttle(encode_throttle(rate)) == CommonThrottle(rate)


def test_the_throttle_may_be_auto() -> None:
    """A reason is a text as well, so that the value is not one by itself."""
    assert decode_throttle(encode_throttle(AUTO)) == CommonThrottle(AUTO)
    for members in ({"throttle": 5}, {"throttle": "fast"}, {"throttle": "auto", "bytes_per_s": 5}):
        assert isinstance(decode_throttle(document(version=1, **members)), str)


@given(DRAINS)
def test_drains_come_back_as_they_were_written(drains: Drains) -> None:
    """A round trip loses nothing; the znode tells which request they are."""
    assert decode_drains(encode_drains(drains), *HERE) == drains
    assert drains.request == "drain-000000000000004d"


@given(ANY_BYTES)
def test_any_bytes_give_a_control_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_pauses(data), str | Pauses)
    assert isinstance(decode_limits(data), str | Limits)
    assert isinstance(decode_throttle(data), str | CommonThrottle)
    assert isinstance(decode_drains(data, *HERE), str | Drains)


def test_the_text_forms_are_understood() -> None:
    """As an operator would write them by hand."""
    assert decode_pauses(
        document(version=1, everything={}, brokers={"5": {"reason": "disk"}})
    ) == Pauses(Pause(), {}, {BrokerId(5): Pause("disk")})
    assert decode_limits(
        document(
            version=1,
            window="22:00-05:00 Europe/Berlin",
            brokers={"5": {"max_incoming": 0}},
            requests={"request_0000000001": {"step_size": "all"}},
        )
    ) == Limits(
        window=Window(1320, 300, "Europe/Berlin"),
        brokers={BrokerId(5): BrokerLimits(max_incoming=0)},
        requests={RequestId("request_0000000001"): RequestLimits(step_size="all")},
    )


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"everything": True}, "everything"),
        ({"everything": {"why": "x"}}, "everything: the key"),
        ({"requests": {"../x": {}}}, "request id"),
        ({"requests": {"r": {"since_ms": -1}}}, "requests: r: since_ms"),
        ({"brokers": {"05": {}}}, "broker id"),
        ({"brokers": {"5": []}}, "brokers: 5"),
        ({"all": {}}, "all"),
    ],
)
def test_a_bad_pause_is_named(members: dict[str, object], why: str) -> None:
    """What stands still is never guessed."""
    read = decode_pauses(document(version=1, **members))
    assert isinstance(read, str)
    assert why in read


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"max_partitions_in_flight": 0}, "max_partitions_in_flight"),
        ({"max_incoming_per_broker": "many"}, "max_incoming_per_broker"),
        ({"step_size": 0}, "step_size"),
        ({"order": "random"}, "order"),
        ({"window": "late"}, "window"),
        ({"brokers": {"5": {"max_incoming": -1}}}, "brokers: 5: max_incoming"),
        ({"requests": {"r": {"priority": 5000}}}, "requests: r: priority"),
        ({"requests": {"r": {"max_incoming": 1}}}, "not known"),
        ({"max_partition_in_flight": 5}, "not known"),
    ],
)
def test_a_bad_limit_is_named(members: dict[str, object], why: str) -> None:
    """A limit that is set and does not hold would be worse than none."""
    read = decode_limits(document(version=1, **members))
    assert isinstance(read, str)
    assert why in read


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"brokers": [5]}, "brokers"),
        ({"brokers": {"05": {}}}, "broker id"),
        ({"brokers": {"5": {"who": "ann"}}}, "brokers: 5: the key"),
        ({"brokers": {"5": {"since_ms": -1}}}, "brokers: 5: since_ms"),
        ({"brokers": {}, "throttle": 0}, "throttle"),
        ({"brokers": {}, "window": "late"}, "window"),
        ({"broker": {"5": {}}}, "not known"),
    ],
)
def test_a_bad_drain_is_named(members: dict[str, object], why: str) -> None:
    """No replica is moved by a guess."""
    read = decode_drains(document(version=1, **members), *HERE)
    assert isinstance(read, str)
    assert why in read


@pytest.mark.parametrize("members", [{}, {"bytes_per_s": 0}, {"bytes_per_s": "50MB"}, {"rate": 5}])
def test_a_bad_throttle_is_refused(members: dict[str, object]) -> None:
    """Neither no throttle nor another one is made of it."""
    assert isinstance(decode_throttle(document(version=1, **members)), str)


def test_controls_need_their_version() -> None:
    """A format of the future is not guessed at."""
    for decode in (decode_pauses, decode_limits, decode_throttle):
        assert "version" in str(decode(json.dumps({"version": 2}).encode()))


@given(EVACUATIONS)
def test_evacuations_come_back_whole_and_their_brokers_alone(found: Evacuations) -> None:
    """The daemon reads the brokers alone, whatever the way back is."""
    data = encode_evacuations(found)
    assert decode_evacuations(data) == found
    assert decode_evacuated(data) == found.brokers
    broken = json.loads(data) | {"former": {"t": "no partitions"}}
    assert isinstance(decode_evacuations(json.dumps(broken).encode()), str)
    assert decode_evacuated(json.dumps(broken).encode()) == found.brokers


@given(ANY_BYTES)
def test_any_bytes_are_evacuated_brokers_or_a_text(data: bytes) -> None:
    """A daemon survives what another program writes there."""
    assert isinstance(decode_evacuated(data), str | dict)
