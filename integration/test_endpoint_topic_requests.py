"""
Random requests for topics: the daemon answers and writes what Kafka's controller does.

The same requests go to Kafka's controller and then, with other names, to the daemon. Their answers
are compared, and the znodes that they leave. Left out is what the daemon refuses by intent: replica
lists that are empty or name what no broker can be, and ``__cluster_metadata``, which releases of
Kafka create, or refuse with different errors.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.controller_wire import ControllerWire
from integration.rigs.kafka_jars import KAFKA_3_5, KAFKA_3_9, Release
from integration.rigs.plans import Daemons
from integration.rigs.running_daemons import controller_epoch
from integration.rigs.servers import BrokerOptions
from integration.test_endpoint_clients import ROWS, tenure

REQUESTS: Final = 300
NAMES: Final = 90
SEED: Final = 20
TIMEOUT_MS: Final = 20_000
BROKERS: Final = (1, 2, 3, 4)
GONE: Final = 99
"""No broker has this id; a new topic may name it nevertheless."""
INVALID_NAMES: Final = ("", ".", "..", "no:name", "n" * 250)
SETTINGS: Final = (
    ("cleanup.policy", "compact"),
    ("cleanup.policy", " compact , delete"),
    ("cleanup.policy", "COMPACT"),
    ("cleanup.policy", ""),
    ("cleanup.policy", "bogus"),
    ("retention.ms", "86400000"),
    ("retention.ms", " 5000 "),
    ("retention.ms", "soon"),
    ("retention.ms", ""),
    ("retention.ms", None),
    ("Retention.ms", "1"),
    ("min.insync.replicas", "1"),
    ("min.insync.replicas", "0"),
    ("unclean.leader.election.enable", "TRUE"),
    ("unclean.leader.election.enable", "maybe"),
    ("min.cleanable.dirty.ratio", "1"),
    ("min.cleanable.dirty.ratio", "2"),
    ("leader.replication.throttled.replicas", "0:1"),
    ("leader.replication.throttled.replicas", "x"),
    ("compression.type", "lz4"),
    ("", "1"),
    ("no.setting", "1"),
    ("segment.bytes", "1048576"),
)
NULLS_AS_SETTINGS: Final = (KAFKA_3_9, KAFKA_3_5)
"""Releases that refuse a setting without a value as INVALID_CONFIG; others: INVALID_REQUEST."""
POLICIES: Final = tuple(s for s in SETTINGS if s[0] == "cleanup.policy")
Setting = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Created:
    """A topic of a CreateTopics."""

    name: str
    partitions: int
    factor: int
    assigned: tuple[tuple[int, tuple[int, ...]], ...]
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class Grown:
    """A topic of a CreatePartitions."""

    name: str
    count: int
    assigned: tuple[tuple[int, ...], ...] | None


@dataclass(frozen=True, slots=True)
class TopicCase:
    """A request; names stand for themselves behind a prefix, except invalid ones."""

    version: int
    validate_only: bool
    created: tuple[Created, ...] = ()
    grown: tuple[Grown, ...] = ()

    @property
    def has_null(self) -> bool:
        """Whether a setting has no value."""
        return any(value is None for topic in self.created for _, value in topic.settings)


class Requests:
    """Draws requests."""

    def __init__(self, seed: int) -> None:
        """Begin anew."""
        self._chance = random.Random(seed)

    def drawn(self, count: int) -> list[TopicCase]:
        """Return so many."""
        return [self._one() for _ in range(count)]

    def _one(self) -> TopicCase:
        chance = self._chance
        is_only = chance.random() < 0.2
        size = chance.choice((1, 1, 1, 2, 3))
        if chance.random() < 0.3:
            grown = tuple(self._grown() for _ in range(size))
            return TopicCase(chance.randint(0, 3), is_only, grown=grown)
        created = [self._created() for _ in range(size)]
        if chance.random() < 0.05:
            created.append(created[0])
        version = chance.randint(0, 7)
        return TopicCase(version, is_only and version > 0, created=tuple(created))

    def _name(self) -> str:
        chance = self._chance
        if chance.random() < 0.06:
            return chance.choice(INVALID_NAMES)
        number = chance.randrange(NAMES)
        return f"t{'._-'[number % 3]}{number // 2 if number % 3 < 2 else number}"

    def _created(self) -> Created:
        chance = self._chance
        assigned: tuple[tuple[int, tuple[int, ...]], ...] = ()
        partitions, factor = chance.choice((-1, 1, 2, 3)), chance.choice((-1, 1, 2, 3))
        if chance.random() < 0.1:
            partitions, factor = chance.choice(((0, 1), (-2, 1), (1, 0), (1, -2), (1, 9)))
        if chance.random() < 0.4:
            size = chance.choice((1, 2, 2, 3))
            numbers = list(range(chance.choice((1, 2, 3))))
            odd = chance.random()
            if odd < 0.1:
                numbers.append(0)
            elif odd < 0.2:
                numbers = [n + chance.choice((0, 1)) for n in numbers]
            assigned = tuple((n, self._replicas(size)) for n in numbers)
            if chance.random() < 0.9:
                partitions = factor = -1
        settings = tuple(chance.choices(SETTINGS, k=chance.choice((0, 0, 1, 1, 2, 4))))
        if chance.random() < 0.2:
            settings = (*settings, *chance.sample(POLICIES, 3))
        return Created(self._name(), partitions, factor, assigned, settings)

    def _replicas(self, size: int) -> tuple[int, ...]:
        chance = self._chance
        chosen = chance.sample(BROKERS, size)
        kind = chance.random()
        if kind < 0.05:
            chosen.append(chosen[0])
        elif kind < 0.1:
            chosen.append(chance.choice(BROKERS))
        elif kind < 0.13:
            chosen.append(GONE)
        return tuple(chosen)

    def _grown(self) -> Grown:
        chance = self._chance
        count = chance.choice((0, 1, 2, 3, 4, 5, 5, 6))
        assigned = None
        if chance.random() < 0.5:
            size = chance.choice((1, 2, 2, 3))
            assigned = tuple(self._replicas(size) for _ in range(chance.choice((1, 1, 2, 3))))
        name = self._name()
        # Of those that are no path, Kafka's controller reports an unexpected error.
        return Grown("no:name" if name in INVALID_NAMES[:3] else name, count, assigned)


class Answers:
    """Sends requests with names behind a prefix, and keeps the answers without it."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        """Find the controller."""
        self._wire = ControllerWire(cluster)
        self._prefix = prefix
        self.errors: list[dict[str, Any]] = []
        self.texts: list[dict[str, str]] = []

    def send(self, case: TopicCase) -> None:
        """Send a request, with the highest version up to its own that the controller knows."""
        sent, response = self._message(case)
        answer = self._wire.send(sent, response)
        rows = answer.results if case.grown else answer.topics
        found, texts = {}, {}
        for row in rows:
            name = self._plain(row.name)
            found[name] = (row.error_code, *self._described(row, case))
            texts[name] = self._plain(getattr(row, "error_message", None) or "")
        self.errors.append(found)
        self.texts.append(texts)

    def _message(self, case: TopicCase) -> tuple[Any, Any]:
        given: dict[str, Any] = {"timeout_ms": TIMEOUT_MS}
        if case.grown:
            version = min(case.version, self._wire.highest(CreatePartitionsRequest.API_KEY))
            given["topics"] = [
                (self.named(t.name), t.count, t.assigned and [(list(rs),) for rs in t.assigned])
                for t in case.grown
            ]
            given["validate_only"] = case.validate_only
            return CreatePartitionsRequest(version=version, **given), CreatePartitionsResponse
        version = min(case.version, self._wire.highest(CreateTopicsRequest.API_KEY))
        given["topics"] = [
            (
                self.named(t.name),
                t.partitions,
                t.factor,
                [(n, list(rs)) for n, rs in t.assigned],
                list(t.settings),
            )
            for t in case.created
        ]
        if version > 0:
            given["validate_only"] = case.validate_only
        return CreateTopicsRequest(version=version, **given), CreateTopicsResponse

    def named(self, name: str) -> str:
        """Return the name that is sent."""
        return name if name in INVALID_NAMES else self._prefix + name

    def _plain(self, text: str) -> str:
        return text.replace(self._prefix, "")

    @staticmethod
    def _described(row: Any, case: TopicCase) -> Sequence[object]:  # noqa: ANN401 - kafka-python has no types
        """Return what an answer of CreateTopics says of a topic besides the error."""
        if case.grown or not hasattr(row, "topic_config_error_code"):
            return ()
        shown = ((c.name, c.value, c.config_source, c.read_only) for c in row.configs or ())
        return (
            row.num_partitions,
            row.replication_factor,
            row.topic_config_error_code,
            tuple(sorted(shown)),
            bool(getattr(row, "topic_id", None)),
        )


@pytest.fixture(scope="module", params=ROWS, ids=lambda release: release.kafka)
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the cluster of a release."""
    release: Release = request.param
    options = BrokerOptions(release=release, inter_broker_protocol=None)
    with Cluster.running(ClusterOptions(brokers=len(BROKERS), broker=options)) as found:
        yield found


def left(cluster: Cluster, prefix: str, *, exactly: set[str]) -> dict[str, Any]:
    """
    Return what requests left in ZooKeeper, by the name of the topic.

    Args:
        cluster: Where the topics are.
        prefix: Of their names.
        exactly: The topics whose replicas the requests named; those of others are counted.

    """
    found = {}
    for topic in cluster.zk.get_children("/brokers/topics"):
        if not topic.startswith(prefix):
            continue
        name, znode = topic.removeprefix(prefix), cluster.topic(topic) or {}
        replicas = znode.pop("partitions")
        znode["topic_id"] = len(znode.get("topic_id", ""))
        found[name] = {
            **znode,
            "partitions": replicas if name in exactly else {n: len(r) for n, r in replicas.items()},
            "config": cluster.read(f"/config/topics/{topic}"),
            "versions": [
                cluster.zk.get(path)[1].version
                for path in (f"/brokers/topics/{topic}", f"/config/topics/{topic}")
            ],
        }
    return found


@pytest.mark.slow
def test_random_requests_are_answered_and_written_as_by_kafkas_controller(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Errors, settings in the answers, assignments, settings in ZooKeeper, and versions."""
    requests = Requests(SEED).drawn(REQUESTS)
    if cluster.options.broker.release not in NULLS_AS_SETTINGS:
        requests = [case for case in requests if not case.has_null]
    chosen = {t.name for r in requests for t in r.created if not t.assigned} | {
        t.name for r in requests for t in r.grown if t.assigned is None
    }
    named = {t.name for r in requests for t in r.created} - chosen
    make_topic({0: (1, 2)})  # Settings are validated on a topic that exists.
    kafkas = Answers(cluster, "kafka")
    for case in requests:
        kafkas.send(case)
    with tenure(cluster, daemons, make_topic):
        epoch = controller_epoch(cluster)
        ours = Answers(cluster, "owned")
        for case in requests:
            ours.send(case)
        answered = zip(requests, ours.errors, kafkas.errors, strict=True)
        assert [found for found in answered if found[1] != found[2]] == []
        assert left(cluster, "owned", exactly=named) == left(cluster, "kafka", exactly=named)
        assert controller_epoch(cluster) == epoch
    differing = [pair for pair in zip(ours.texts, kafkas.texts, strict=True) if pair[0] != pair[1]]
    print("TEXTS", differing)
