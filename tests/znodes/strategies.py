"""Strategies for the content of a znode: anything."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from controller.core.model import BrokerId, Replicas, RequestId, TopicPartition
from controller.core.requests.submissions import PRIORITY_MAX, RequestOptions, StepSize, Window

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 0, 1, 2**31 - 1, 2**31, 2**63, 10**400])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["0", "00", "-1", "²", "..", "a/b", "\ud800", "any", "legacy"])
)

KEYS = st.text(max_size=4) | st.sampled_from(
    [
        "version", "partitions", "topic", "partition", "replicas", "log_dirs", "topic_id",
        "adding_replicas", "removing_replicas", "leader", "leader_epoch", "isr", "controller_epoch",
        "leader_recovery_state", "brokerid", "kraftControllerEpoch", "endpoints", "host", "port",
        "listener_security_protocol_map", "features", "rack", "target", "original", "request",
        "route", "topic_czxid", "reason", "refused", "done", "raw", "broker", "status", "http",
        "kraft_controller_id", "0", "1", "assignments", "requested_by", "priority", "step_size",
        "throttle", "window", "max_partitions_in_flight", "atomic", "part_of", "parts", "requests",
        "topics", "scope", "everything", "brokers", "by", "since_ms", "order", "max_incoming",
        "bytes_per_s", "ours", "before", "config", "total", "created_ms", "accepted", "ended",
        "fates", "kind", "cancelled_by", "abandoned", "legacy",
    ]
)  # fmt: skip
"""Keys that codecs look for, so that random documents get past the first question."""

JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=10,
)

ANY_BYTES = st.one_of(
    st.binary(max_size=64),
    st.dictionaries(KEYS, JSON, max_size=6).map(lambda d: json.dumps(d).encode()),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(
        [
            b"",
            b"null",
            b"\xff\xfe{",
            b"[" * 100_000,
            b'{"partitions":' * 20_000,
            b'{"version":' + b"9" * 5000 + b"}",
            b'{"version":1,"version":2}',
            b'{"version":NaN,"partitions":[Infinity]}',
        ]
    ),
)

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,12}", fullmatch=True).filter(
    lambda name: name not in (".", "..")
)
BROKERS = st.integers(0, 2**31 - 1).map(BrokerId)
REPLICAS: st.SearchStrategy[Replicas] = st.lists(BROKERS, min_size=1, max_size=5, unique=True).map(
    tuple
)
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))
EPOCHS = st.integers(0, 2**31 - 1)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
REQUESTS = st.from_regex(r"request_[0-9]{10}", fullmatch=True).map(RequestId)
STEP_SIZES: st.SearchStrategy[StepSize] = st.integers(1, 9) | st.just("all")
WINDOWS = st.builds(
    Window, st.integers(0, 1439), st.integers(0, 1439), st.sampled_from(["UTC", "Europe/Berlin"])
)
RATES = st.integers(1, 2**63 - 1)
COUNTS = st.integers(1, 2**31 - 1)
PRIORITIES = st.integers(-PRIORITY_MAX, PRIORITY_MAX)
OPTIONS = st.builds(
    RequestOptions,
    reason=WORDS,
    requested_by=WORDS,
    approved=st.sampled_from(["", "0" * 64]),
    approved_by=WORDS,
    priority=PRIORITIES,
    step_size=st.none() | STEP_SIZES,
    throttle=st.none() | RATES,
    window=st.none() | WINDOWS,
    max_partitions_in_flight=st.none() | COUNTS,
    atomic=st.booleans(),
    part_of=st.none() | REQUESTS,
    parts=COUNTS,
)


def document(**members: object) -> bytes:
    """Write a JSON object."""
    return json.dumps(members).encode()


def without(members: dict[str, object], key: str) -> bytes:
    """Write a JSON object that lacks one of its members."""
    return json.dumps({k: v for k, v in members.items() if k != key}).encode()
