"""
The pause of producers while the leader of their partition moves, by each controller.

Real brokers, and clients that send a record every 10 ms to one partition of three replicas, of
which two have to be in sync. A pause is the longest time between two acknowledgements of a client
round a move. There are two kinds of moves. Elected: the preferred leader changes, no replica does.
Replaced: the replica that leads gives way to one on another broker.

Each client is there with its defaults and with quicker retries: what of a pause is its own back-off
shows in the difference. Brokers log when they hear of a move; the times are relative to the moment
in which the new leader leads.

Every record that was acknowledged with ``acks=all`` is there at the end, or the run fails. Those of
a producer with ``acks=1`` may be lost at each move, with any controller: they are counted.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from statistics import median, quantiles
from typing import Final, Self

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.figures import Extent, Figure
from benchmarks.side_by_side import in_charge
from integration.rigs.audits import UNKNOWN_OFFSET, Record, audit, read_everything, record_of
from integration.rigs.cluster import QUIET, Cluster, ClusterOptions
from integration.rigs.engine_matrix import NATIVE, Row
from integration.rigs.jvms import java_command, write_logging
from integration.rigs.kafka_jars import classpath
from integration.rigs.processes import ChildProcess
from integration.rigs.requests import await_outcome, submit_request
from integration.rigs.servers import properties_text
from integration.rigs.waiting import eventually

MOVES: Final[Mapping[Extent, int]] = {Extent.ORDINARY: 20, Extent.FULL: 60}
"""Of each kind, by each controller."""
GOAL_S: Final = 0.3
"""Of the 90th percentile."""
EVERY_S: Final = 0.01
"""Between two records of a client."""
SETTLED_S: Final = 1.2
"""How long after the end of a move a pause still counts as its own."""
WITHIN_S: Final = 60.0
PLAN: Final = "/admin/reassign_partitions"
ELECTION: Final = "/admin/preferred_replica_election"
ELECTED: Final = "elected"
REPLACED: Final = "replaced"
ALL: Final = {"acks": "all", "enable.idempotence": "true"}
UNSAFE: Final = "librdkafka, acks=1"
LIBRDKAFKA: Final[Mapping[str, Mapping[str, str]]] = {
    "librdkafka": ALL,
    "librdkafka, quicker retries": {
        **ALL,
        "retry.backoff.ms": "20",
        "topic.metadata.refresh.fast.interval.ms": "20",
    },
    UNSAFE: {"acks": "1"},
}
JAVA: Final[Mapping[str, Mapping[str, str]]] = {
    "Java client": {},
    "Java client, quicker retries": {"retry.backoff.ms": "20"},
}
CLIENTS: Final = (*LIBRDKAFKA, *JAVA)


@dataclass(frozen=True, slots=True)
class Contender:
    """A controller; without options of a daemon it is Kafka's own."""

    name: str
    options: Sequence[str] = ()

    @property
    def is_native(self) -> bool:
        """Whether the daemon itself is the controller."""
        return bool(self.options) and "delegated" not in self.options


WRITING, ASKING = NATIVE
"""Leaders write their ISR at protocol 2.6; at 3.9 they ask the controller."""
DELEGATED: Final = ("--engine", "delegated")
BACKOFF: Final = "replica.fetch.backoff.ms"


def _options(row: Row, **extra: str) -> ClusterOptions:
    return replace(row.options, broker=replace(row.options.broker, extra=extra))


CONTENDERS: Final[Sequence[tuple[ClusterOptions, Sequence[Contender]]]] = (
    (
        _options(WRITING),
        (
            Contender("ours, native, protocol 2.6", WRITING.arguments),
            Contender("Kafka's controller, protocol 2.6"),
        ),
    ),
    (
        _options(ASKING),
        (
            Contender("ours, native, protocol 3.9", ASKING.arguments),
            Contender("ours, delegated, protocol 3.9", DELEGATED),
            Contender("Kafka's controller, protocol 3.9"),
        ),
    ),
    (
        _options(ASKING, **{BACKOFF: "100"}),
        (Contender(f"ours, delegated, protocol 3.9, {BACKOFF}=100", DELEGATED),),
    ),
)
"""By cluster."""


class Pulses:
    """Clients of librdkafka, each of which sends a record at the same moments."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        where: Final = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1}
        self._producers = {
            name: Producer({**where, **settings, **QUIET}) for name, settings in LIBRDKAFKA.items()
        }
        self.acknowledged: dict[str, list[tuple[float, Record]]] = defaultdict(list)
        """By client, with the time."""
        self.failed: Counter[str] = Counter()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(name, 100_000_000 * n), daemon=True)
            for n, name in enumerate(LIBRDKAFKA, start=1)
        ]

    def __enter__(self) -> Self:
        """Start them."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop them, and wait for what is on its way."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, name: str, key: int) -> None:
        producer, taken = self._producers[name], self.acknowledged[name]

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                taken.append((time.time(), record_of(message, default_offset=UNKNOWN_OFFSET)))
            else:
                self.failed[f"{name}: {error.name()}"] += 1

        due = time.monotonic()
        while not self._stopping.is_set():
            key += 1
            producer.produce(self._topic, b"x" * 100, str(key), 0, on_delivery=on_delivery)
            due += EVERY_S
            while (left := due - time.monotonic()) > 0:
                producer.poll(left)
        producer.flush(WITHIN_S)

    def times(self, name: str) -> list[float]:
        """Return when the records of a client were acknowledged."""
        return [at for at, _record in self.acknowledged[name]]

    def count_lost(self, readable: Iterable[Record]) -> tuple[int, int]:
        """Return of how many records with acks=1 how many are lost; of others none may be."""
        assert not self.failed, self.failed
        found = list(readable)
        lost = {
            name: audit((record for _at, record in taken), found).missing
            for name, taken in self.acknowledged.items()
        }
        missing = {name: records for name, records in lost.items() if records and name != UNSAFE}
        assert not missing, missing
        return len(lost[UNSAFE]), len(self.acknowledged[UNSAFE])


class JavaPulse(ChildProcess):
    """Kafka's own client: its verifiable producer says when each record was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str, name: str) -> None:
        directory = cluster.directory / f"{topic}-{name.replace(' ', '-')}"
        directory.mkdir()
        config = directory / "producer.properties"
        settings = {"linger.ms": "1", "enable.idempotence": "true", "retries": str(2**31 - 1)}
        config.write_text(properties_text({**settings, **JAVA[name]}))
        command = java_command(
            "org.apache.kafka.tools.VerifiableProducer",
            *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic),
            *("--throughput", str(round(1 / EVERY_S)), "--acks", "-1"),
            *("--producer.config", str(config), "--repeating-keys", "1000000"),
            classpath=classpath(cluster.options.broker.release),
            heap_mb=128,
            logging=write_logging(directory, threshold="ERROR"),
        )
        super().__init__(name, command, log=directory / "acknowledged")

    def times(self) -> list[float]:
        """Return when its records were acknowledged."""
        lines = self.log.read_text().splitlines()
        sent = (line for line in lines if '"producer_send_success"' in line and line[-1] == "}")
        return [json.loads(line)["timestamp"] / 1000 for line in sent]


@dataclass(frozen=True, slots=True)
class Move:
    """One move of a leadership."""

    kind: str
    begun: float
    ended: float
    old: int
    new: int


class Course:
    """The partition whose leader moves on and on."""

    def __init__(self, cluster: Cluster, topic: str, contender: Contender) -> None:
        self._cluster = cluster
        self._topic = topic
        self._is_ours = bool(contender.options)
        cluster.create_topic(topic, {0: [1, 2, 3]}, {"min.insync.replicas": "2"})

    def move(self, kind: str) -> Move:
        """Move the leader once, and wait until the partition is whole again."""
        cluster, old = self._cluster, self._leader()
        replicas = cluster.replicas(self._topic, 0)
        if kind == ELECTED:
            wanted = [*(r for r in replicas if r != old), old]
        else:
            after = itertools.islice(itertools.cycle(sorted(cluster.brokers)), old, None)
            spare = next(broker for broker in after if broker not in replicas)
            wanted = [spare if r == old else r for r in replicas]
        if kind == ELECTED and not self._is_ours:
            self._plan(wanted)
            time.sleep(SETTLED_S)
        begun = time.time()
        if self._is_ours:
            elects = {"elect_leaders": True} if kind == ELECTED else {}
            request = submit_request(cluster, {(self._topic, 0): wanted}, **elects)
            outcome = await_outcome(cluster, request, within_s=WITHIN_S)
            assert not outcome.get("refused"), outcome
        elif kind == ELECTED:
            entry = {"topic": self._topic, "partition": 0}
            data = json.dumps({"version": 1, "partitions": [entry]}).encode()
            cluster.zk.create(ELECTION, data)
        else:
            self._plan(wanted)

        def is_whole() -> bool:
            led = self._leader() not in {0, old}
            return led and cluster.isr(self._topic, 0) == set(wanted)

        eventually(is_whole, within_s=WITHIN_S, every_s=0.02, what=f"{kind}: another one leads")
        move = Move(kind, begun, time.time(), old, self._leader())
        time.sleep(SETTLED_S + 0.3)
        return move

    def _leader(self) -> int:
        return self._cluster.leader(self._topic, 0) or 0

    def _plan(self, replicas: Sequence[int]) -> None:
        zk = self._cluster.zk
        entry = {"topic": self._topic, "partition": 0, "replicas": list(replicas)}
        zk.create(PLAN, json.dumps({"version": 1, "partitions": [entry]}).encode())
        eventually(lambda: zk.exists(PLAN) is None, within_s=WITHIN_S, every_s=0.02)


def pauses(times: Sequence[float], moves: Iterable[Move]) -> list[float]:
    """Return the longest time without an acknowledgement round each move."""
    gaps = list(pairwise(times))
    return [
        max((b - a for a, b in gaps if b >= m.begun and a <= m.ended + SETTLED_S), default=0.0)
        for m in moves
    ]


_LINE: Final = re.compile(r"^\[(?P<at>[-\d]+ [:\d]+,\d+)\] \w+ (?P<what>.*)$")


def heard(cluster: Cluster, topic: str) -> dict[int, list[tuple[float, str]]]:
    """Return what each broker heard when, by its log."""
    kinds = {
        "leads": f"Leader {topic}-0 ",
        "follows": f"Follower {topic}-0 ",
        "metadata": "from metadata cache in response to UpdateMetadata",
        "stops": "Handling StopReplica request",
    }
    found: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for number, broker in cluster.brokers.items():
        for line in broker.log.read_text(errors="replace").splitlines():
            matched = _LINE.match(line)
            if matched is None or "Add 0 partitions" in line:
                continue
            for kind, text in kinds.items():
                if text in matched["what"]:
                    at = datetime.strptime(matched["at"], "%Y-%m-%d %H:%M:%S,%f").astimezone()
                    found[number].append((at.timestamp(), kind))
    return found


def timeline(
    moves: Iterable[Move], known: Mapping[int, Sequence[tuple[float, str]]]
) -> dict[str, list[float]]:
    """Return when others heard of each move, from the moment in which the new leader leads."""
    found: dict[str, list[float]] = defaultdict(list)
    for move in moves:
        until = move.ended + SETTLED_S

        def first(broker: int, *kinds: str, since: float, until: float = until) -> list[float]:
            return [at for at, k in known[broker] if k in kinds and since <= at <= until][:1]

        for leads in first(move.new, "leads", since=move.begun):
            others = known.keys() - {move.old, move.new}
            told = {
                "the old leader": [first(move.old, "follows", "stops", since=leads - 0.2)],
                "the last follower": [first(b, "follows", since=leads - 0.2) for b in others],
                "the last broker, for its clients": [
                    first(b, "metadata", since=leads - 0.01) for b in known
                ],
            }
            for who, times in told.items():
                if at := [t - leads for several in times for t in several]:
                    found[who].append(max(at))
    return found


def measure(extent: Extent) -> list[Figure]:
    """Measure every contender, those of a cluster one after the other."""
    figures = []
    for options, contenders in CONTENDERS:
        with Cluster.running(options) as cluster:
            for number, contender in enumerate(contenders):
                figures += _measured(cluster, f"paused-{number}", contender, MOVES[extent])
    return figures


def _measured(cluster: Cluster, topic: str, contender: Contender, count: int) -> list[Figure]:
    course = Course(cluster, topic, contender)
    with ExitStack() as stack:
        options = (*contender.options, "--min-free", "none") if contender.options else ()
        stack.enter_context(in_charge(cluster, *options, is_native=contender.is_native))
        java = {name: JavaPulse(cluster, topic, name) for name in JAVA}
        for pulse in java.values():
            pulse.start()
            stack.callback(pulse.kill)
        pulses = stack.enter_context(Pulses(cluster, topic))
        eventually(
            lambda: all(pulse.times() for pulse in java.values()),
            within_s=WITHIN_S,
            what=lambda: f"Java clients produce: {[p.log_tail() for p in java.values()]}",
        )
        for kind in (ELECTED, REPLACED):  # warms brokers and clients up
            course.move(kind)
        moves = [course.move(kind) for _ in range(count) for kind in (ELECTED, REPLACED)]
        for pulse in java.values():
            pulse.stop()
    lost, of = pulses.count_lost(read_everything(cluster.bootstrap_servers, {topic: 1}))
    known = heard(cluster, topic)
    figures = []
    for kind in (ELECTED, REPLACED):
        those, what = [m for m in moves if m.kind == kind], f"{contender.name}, {kind}"
        for name in CLIENTS:
            times = java[name].times() if name in java else pulses.times(name)
            is_aim = contender.is_native and name != UNSAFE
            figures.append(_pause(f"{what}: {name}", pauses(times, those), is_aim=is_aim))
        for who, at in timeline(those, known).items():
            figures.append(_hearing(f"{what}: {who} hears of it", at))
    what = f"{contender.name}: records with acks=1 lost in {2 * count + 2} moves, of {of}"
    return [*figures, Figure(what, str(lost), 1)]


def _pause(what: str, seconds: Sequence[float], *, is_aim: bool) -> Figure:
    tenths = quantiles(seconds, n=10, method="inclusive")
    return Figure(
        what=what,
        median=f"{median(seconds):.2f} s",
        spread=f"p90 {tenths[8]:.2f} s, at most {max(seconds):.2f} s",
        runs=len(seconds),
        spec=f"p90 under {GOAL_S:g} s" if is_aim else "",
        of_goal=tenths[8] / GOAL_S if is_aim else None,
    )


def _hearing(what: str, seconds: Sequence[float]) -> Figure:
    return Figure(
        what=what,
        median=f"{1000 * median(seconds):.0f} ms",
        spread=f"{1000 * min(seconds):.0f} to {1000 * max(seconds):.0f} ms",
        runs=len(seconds),
    )
