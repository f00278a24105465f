"""
A throttle ``auto`` beside fixed ones: one data-bound plan under producers at three loads.

Five brokers send no more than a slow network takes, each through a queue of its own, and replicas
fetch as much less at once as it is slower, so that copies and acknowledgements compete for it. The
network is a namespace of this process, shaped by ``tc``: that takes the rights of root. Every
broker sends the same number of bytes to each other one, to and fro between two assignments. At a
fixed rate a plan takes at least the bytes of a broker divided by the rate: the bound. A run is
judged by the 99th percentile of the acknowledgements meanwhile, of producers with ``acks=all``; the
best fixed rate is the one of the shortest run that met the objective.

Then two plans after one another keep the brokers busy while the load of the producers triples and
falls again. The objective is met again when the last second with a worse percentile has passed.

A figure of a cluster that lost a record, or kept a throttle, would be worth nothing: both are
asserted. Other work on the machine changes what is measured: ratios of one run say most.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import inf
from statistics import median, quantiles
from typing import Final, Self

from benchmarks.figures import Extent, Figure
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon
from integration.rigs.operator_actions import await_leases_gone, rates
from integration.rigs.plans import fill
from integration.rigs.requests import await_outcome, submit_request
from integration.rigs.servers import BrokerOptions
from integration.rigs.traffic import Acknowledgement, Traffic

MB: Final = 1_000_000
BROKERS: Final = 5
PRODUCED_TO: Final = BROKERS * (BROKERS - 1)
"""The partitions of a topic for producers."""
OBJECTIVE_S: Final = 0.5
GOAL: Final = 1.15
"""Times the duration of the best fixed rate, at most."""
BOUND_GOAL: Final = 1.05
MET_AGAIN_S: Final = 30.0
"""The time in which the objective is to be met again after the load has tripled."""
DOUBLED_S: Final = 60.0
"""The time in which the rate is to have doubled after the load has fallen."""
RECORD_BYTES: Final = 10_000
"""Each is a batch: of those that end a response only a part fits, which the quota counts, too."""
PAYLOAD_BYTES: Final = 50_000
SENT_PER_S: Final = 3 * MB
"""What the network takes from a broker, in bytes per second."""
FETCHED_BYTES: Final = 250_000
"""The most that a replica fetches of a partition at once."""
QUOTA_SAMPLES: Final = 3
"""Kafka's replication quota is an average of so many seconds."""
ENDS_WITHIN_S: Final = 1800.0
CLONE_NEWNET: Final = 0x40000000
AUTO: Final = "auto"
UNTHROTTLED: Final = "no throttle"
Throttle = int | str


@dataclass(frozen=True, slots=True)
class Load:
    """How much is moved and produced."""

    partitions: int
    """With as many first replicas on each broker."""
    records: int
    """In each partition."""
    records_per_s: Mapping[str, float]
    """Of the producers, by the name of their load."""
    rounds: int
    phase_s: float
    """The time before the load triples, while it has tripled, and after it has fallen."""

    @property
    def bytes_per_broker(self) -> int:
        """The bytes that each broker copies."""
        return self.partitions // BROKERS * self.records * RECORD_BYTES


RATES: Final = tuple(round(rate * MB) for rate in (1, 1.25, 1.5, 1.75, 2, 3))
"""The fixed rates, in bytes per second and broker."""
RATE_MIN: Final = MB // 4
LOADS: Final[Mapping[Extent, Load]] = {
    Extent.ORDINARY: Load(
        partitions=20, records=1125, records_per_s={"middle": 75.0}, rounds=1, phase_s=60.0
    ),
    Extent.FULL: Load(
        partitions=20,
        records=3000,
        records_per_s={"low": 25.0, "middle": 75.0, "high": 150.0},
        rounds=3,
        phase_s=120.0,
    ),
}


@dataclass(frozen=True, slots=True)
class Run:
    """What one plan took, and what producers saw."""

    seconds: float
    p99_s: float
    produced: int

    @property
    def meets_objective(self) -> bool:
        """Whether producers saw no more than the objective."""
        return self.p99_s <= OBJECTIVE_S


@contextmanager
def own_network() -> Iterator[None]:
    """Have this thread, and what it starts, in a network of its own, which is a loopback alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, f"no network of its own, as root has: {os.strerror(number)}")
        try:
            _run("ip link set lo up")
            yield
        finally:
            libc.setns(before, CLONE_NEWNET)
    finally:
        os.close(before)


def _run(command: str) -> None:
    subprocess.run(command.split(), check=True)


@contextmanager
def slow_network(cluster: Cluster) -> Iterator[None]:
    """Let each broker send so much, through a queue that is first in, first out."""
    commands = ["qdisc add dev lo root handle 1: htb default 999"]
    commands.append("class add dev lo parent 1: classid 1:999 htb rate 10gbit quantum 200000")
    for number, broker in cluster.brokers.items():
        rate = f"rate {SENT_PER_S}bps quantum 200000"
        of_broker = f"match ip sport {broker.port.number} 0xffff"
        commands += [
            f"class add dev lo parent 1: classid 1:{number} htb {rate}",
            f"qdisc add dev lo parent 1:{number} pfifo limit 10000",
            f"filter add dev lo parent 1: protocol ip u32 {of_broker} flowid 1:{number}",
        ]
    try:
        for command in commands:
            _run(f"tc {command}")
        yield
    finally:
        _run("tc qdisc del dev lo root")


@dataclass(slots=True)
class Course:
    """A topic whose second replicas are moved to and fro, from each broker to each."""

    cluster: Cluster
    topic: str
    load: Load
    _away: Iterator[int] = field(default_factory=lambda: itertools.cycle((1, 0)))

    def __post_init__(self) -> None:
        """Create and fill the topic."""
        self.cluster.create_topic(self.topic, self._assignment(0))
        for number in range(self.load.partitions):  # one at a time: the client's queue is bounded
            fill(self.cluster, [(self.topic, number)], self.load.records, RECORD_BYTES)

    def submit(self, throttle: Throttle) -> str:
        """Submit the next plan; return its request."""
        targets = {(self.topic, n): r for n, r in self._assignment(next(self._away)).items()}
        options = {} if throttle == UNTHROTTLED else {"throttle": throttle}
        return submit_request(self.cluster, targets, **options)

    def _assignment(self, shift: int) -> dict[int, list[int]]:
        return {n: pair_of(n, shift) for n in range(self.load.partitions)}


def pair_of(number: int, shift: int = 0) -> list[int]:
    """Return the brokers of a partition: each is the first of some, with each other one in turn."""
    first, apart = number % BROKERS, 1 + (number // BROKERS + shift) % (BROKERS - 1)
    return [1 + first, 1 + (first + apart) % BROKERS]


class Clients:
    """Topics for producers, one for each run: the records of two would have the same keys."""

    def __init__(self, cluster: Cluster, runs: int) -> None:
        """Create them while a broker is the controller."""
        self.cluster = cluster
        self._topics = [f"clients-{n}" for n in range(runs)]
        led = {n: pair_of(n) for n in range(PRODUCED_TO)}
        for topic in self._topics:
            cluster.create_topic(topic, led)

    @contextmanager
    def producing(self, records_per_s: float) -> Iterator[Traffic]:
        """Produce to the next topic, and see at the end that nothing was lost."""
        with _traffic(self.cluster, self._topics.pop(), records_per_s) as produced:
            yield produced


@contextmanager
def _traffic(cluster: Cluster, topic: str, records_per_s: float) -> Iterator[Traffic]:
    with Traffic(
        cluster.bootstrap_servers,
        {topic: PRODUCED_TO},
        records_per_s=records_per_s,
        payload_bytes=PAYLOAD_BYTES,
        give_up_after_s=300.0,
    ) as produced:
        produced.await_flow()
        yield produced
        produced.stop()
    found = produced.audited()
    assert found.is_clean, str(found)
    assert not produced.failed, produced.failed


def p99(acknowledgements: Sequence[Acknowledgement]) -> float:
    """Return the 99th percentile of what acknowledgements took; 0 without any."""
    took = [a.took_s for a in acknowledgements]
    return quantiles(took, n=100)[98] if len(took) > 1 else max(took, default=0.0)


def measured(course: Course, clients: Clients, throttle: Throttle, records_per_s: float) -> Run:
    """Carry out one plan beside producers."""
    with clients.producing(records_per_s) as produced, slow_network(course.cluster):
        before = len(produced.acknowledgements)
        begun = time.monotonic()
        request = course.submit(throttle)
        outcome = await_outcome(course.cluster, request, within_s=ENDS_WITHIN_S)
        seconds = time.monotonic() - begun
        seen = produced.acknowledgements[before:]
    assert not outcome.get("refused"), outcome
    await_leases_gone(course.cluster)
    assert set(rates(course.cluster).values()) == {(None, None)}
    return Run(seconds, p99(seen), len(seen))


# --- the load triples and falls -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reaction:
    """How the rate followed the load of the producers."""

    met_again_s: float
    doubled_s: float | None
    """None: not within the phase."""
    rates: tuple[float, float, float]
    """The median rate at the end of each phase, in bytes per second and broker."""
    p99s: tuple[float, float, float]
    """Of the second half of each phase."""


class RateWatch:
    """The replication rates of brokers over time, from Kafka's own settings."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rates", daemon=True)
        self.seen: list[tuple[float, float]] = []
        """The time and the median of the brokers' rates."""

    def _run(self) -> None:
        while not self._stopping.wait(1.0):
            found = [int(rate) for _, rate in rates(self._cluster).values() if rate is not None]
            if found:
                self.seen.append((time.time(), median(found)))

    def at(self, instant: float) -> float:
        """Return the rate at a Unix time; 0 before there was one."""
        return next((rate for at, rate in reversed(self.seen) if at <= instant), 0.0)

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._stopping.set()
        self._thread.join()


@contextmanager
def always_moving(courses: Sequence[Course]) -> Iterator[None]:
    """Keep a plan of each course in progress with a throttle ``auto``."""
    stopping = threading.Event()
    crashes: list[BaseException] = []

    def move(course: Course) -> None:
        try:
            while not stopping.is_set():
                request = course.submit(AUTO)
                await_outcome(course.cluster, request, within_s=ENDS_WITHIN_S)
        except BaseException as error:  # noqa: BLE001 - raised again by the main thread
            crashes.append(error)

    threads = [threading.Thread(target=move, args=(c,), daemon=True) for c in courses]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join(ENDS_WITHIN_S)
    if crashes:
        raise crashes[0]


def reaction(
    courses: Sequence[Course], clients: Clients, load: Load, records_per_s: float
) -> Reaction:
    """Triple the load of the producers, and let it fall again."""
    cluster = clients.cluster
    # Whether anything was lost is read when all is over, with a fast network.
    with ExitStack() as producers, ExitStack() as stack:
        watch = stack.enter_context(RateWatch(cluster))
        steady = producers.enter_context(clients.producing(records_per_s))
        stack.enter_context(slow_network(cluster))
        stack.enter_context(always_moving(courses))
        time.sleep(load.phase_s)
        tripled_at = time.time()
        added = producers.enter_context(clients.producing(2 * records_per_s))
        time.sleep(load.phase_s)
        fallen_at = time.time()
        added.stop()
        time.sleep(load.phase_s)
        ended_at = time.time()
        seen = steady.acknowledgements
    await_leases_gone(cluster)
    assert set(rates(cluster).values()) == {(None, None)}
    before = watch.at(fallen_at)
    doubled = [at for at, rate in watch.seen if at > fallen_at and rate >= 2 * before]
    ends = (tripled_at, fallen_at, ended_at)
    return Reaction(
        met_again_s=last_missed(seen, tripled_at, fallen_at),
        doubled_s=doubled[0] - fallen_at if doubled else None,
        rates=(watch.at(ends[0]), before, watch.at(ends[2])),
        p99s=tuple(  # type: ignore[arg-type] # three
            p99([a for a in seen if end - load.phase_s / 2 <= a.at < end]) for end in ends
        ),
    )


def last_missed(seen: Sequence[Acknowledgement], since: float, until: float) -> float:
    """Return the seconds until the last second whose percentile missed the objective has passed."""
    by_second: dict[int, list[Acknowledgement]] = {}
    for acknowledgement in seen:
        if since <= acknowledgement.at < until:
            by_second.setdefault(int(acknowledgement.at - since), []).append(acknowledgement)
    return max((1.0 + n for n, of in by_second.items() if p99(of) > OBJECTIVE_S), default=0.0)


# --- the figures ----------------------------------------------------------------------------------


def measure(extent: Extent) -> list[Figure]:
    """Measure the sweep at each load, then the reaction to a change of load."""
    load = LOADS[extent]
    broker = BrokerOptions(
        inter_broker_protocol="2.6",
        extra={
            "replica.fetch.max.bytes": str(FETCHED_BYTES),
            "replication.quota.window.num": str(QUOTA_SAMPLES),
        },
    )
    options = ClusterOptions(brokers=BROKERS, broker=broker)
    figures: list[Figure] = []
    with own_network(), Cluster.running(options) as cluster, ExitStack() as stack:
        runs = load.rounds * (len(load.records_per_s) * (len(RATES) + 3) + 2)
        clients = Clients(cluster, runs)
        courses = [Course(cluster, f"moved-{n}", load) for n in range(2)]
        daemon = Daemon(
            cluster.zookeeper_connect,
            cluster.directory / "daemon",
            *("--engine", "native", "--tenure", "permanent"),
            *("--throttle-min", str(RATE_MIN), "--latency-objective", str(OBJECTIVE_S)),
        )
        stack.callback(daemon.port.close)
        stack.callback(daemon.kill)
        daemon.start()
        for name, records_per_s in load.records_per_s.items():
            figures += _sweep(courses[0], clients, load, name, records_per_s)
        records_per_s = load.records_per_s["middle"]
        found = [reaction(courses, clients, load, records_per_s) for _ in range(load.rounds)]
        figures += _of_reactions(found)
    return figures


def _sweep(
    course: Course, clients: Clients, load: Load, name: str, records_per_s: float
) -> list[Figure]:
    """Carry out the plan with each throttle in turn, and in reverse in every second round."""
    throttles: list[Throttle] = [*RATES, AUTO, UNTHROTTLED, AUTO]
    runs: dict[Throttle, list[Run]] = {throttle: [] for throttle in throttles}
    for number in range(load.rounds):
        for throttle in throttles if number % 2 == 0 else reversed(throttles):
            run = measured(course, clients, throttle, records_per_s)
            print(f"{name} load, {throttle}: {run}", flush=True)
            runs[throttle].append(run)
    took = {t: median(r.seconds for r in of) for t, of in runs.items()}
    seen = {t: median(r.p99_s for r in of) for t, of in runs.items()}
    met = [rate for rate in RATES if seen[rate] <= OBJECTIVE_S]
    best = min((took[rate] for rate in met), default=None)
    what = f"{load.bytes_per_broker / MB:g} MB for each broker, {name} load"
    figures = []
    for throttle, of in runs.items():
        ratio, spec = "", ""
        of_goal: float | None = None
        if isinstance(throttle, int):
            bound = load.bytes_per_broker / throttle
            ratio = f"{took[throttle] / bound:.2f} times the bound"
            label = f"{throttle / MB:g} MB/s"
            if throttle == RATES[0]:
                spec, of_goal = f"{BOUND_GOAL:g} times", took[throttle] / (BOUND_GOAL * bound)
        elif throttle == AUTO:
            label, spec = AUTO, f"p99 {OBJECTIVE_S:g} s, {GOAL:g} times the best fixed rate"
            ratio = "" if best is None else f"{took[AUTO] / best:.2f} times the best fixed rate"
            slower = inf if best is None else took[AUTO] / (GOAL * best)
            of_goal = max(seen[AUTO] / OBJECTIVE_S, slower)
        else:
            label, spec = UNTHROTTLED, f"p99 above {OBJECTIVE_S:g} s"
            of_goal = OBJECTIVE_S / seen[throttle] if seen[throttle] else inf
        spread = [r.p99_s for r in of]
        figures.append(
            Figure(
                what=f"{what}, {label}: p99 of acknowledgements {seen[throttle]:.2f} s"
                + (f" ({min(spread):.2f} to {max(spread):.2f} s)" if len(spread) > 1 else ""),
                median=f"{took[throttle]:.1f} s",
                spread=f"{min(r.seconds for r in of):.1f} to {max(r.seconds for r in of):.1f} s"
                if len(of) > 1
                else "",
                runs=len(of),
                ratio=ratio,
                spec=spec,
                of_goal=of_goal,
            )
        )
    return figures


def _of_reactions(found: Sequence[Reaction]) -> list[Figure]:
    met = [r.met_again_s for r in found]
    doubled = [r.doubled_s if r.doubled_s is not None else float("inf") for r in found]

    def text(values: Sequence[tuple[float, float, float]], unit: float) -> str:
        return ", ".join(f"{median(v) / unit:.2f}" for v in zip(*values, strict=True))

    return [
        _duration_of(
            "from the threefold load until the objective is met again; p99 of the second half "
            f"of each phase: {text([r.p99s for r in found], 1.0)} s",
            met,
            MET_AGAIN_S,
        ),
        _duration_of(
            "from the fall of the load until the rate has doubled; rate at the end of each "
            f"phase: {text([r.rates for r in found], MB)} MB/s",
            doubled,
            DOUBLED_S,
        ),
    ]


def _duration_of(what: str, seconds: Sequence[float], most_s: float) -> Figure:
    return Figure(
        what=what,
        median=f"{median(seconds):.0f} s",
        spread=f"{min(seconds):.0f} to {max(seconds):.0f} s" if len(seconds) > 1 else "",
        runs=len(seconds),
        spec=f"under {most_s:g} s",
        of_goal=median(seconds) / most_s,
    )
