"""
The cost of many partitions in flight: memory, reaction beside them, recovery, cancellation.

On the fleet of simulated brokers, where copies of one kind of topic never end: what is submitted
for these stays in flight until it is cancelled. Times are read from ZooKeeper's transaction log, so
that looking costs the daemon nothing; recovery stands beside the time of merely reading the same
znodes with kazoo, and of writing as many states as well.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from benchmarks.figures import Extent, Figure, Sample, in_milliseconds, reduced
from benchmarks.grounds import (
    BESIDE_THE_FLEET,
    REASSIGNMENTS,
    Ground,
    Shape,
    daemon_in_charge,
    fleet,
    has_goals,
    submit_requests,
)
from benchmarks.processes import memory_kb
from benchmarks.reaction import isr_to_end_s, journal_of, sent_at
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.running_daemons import controller_epoch
from integration.rigs.transaction_log import transactions_of, writes, writes_in
from integration.rigs.waiting import eventually

SHAPES: Final[Mapping[Extent, tuple[Shape, ...]]] = {
    Extent.ORDINARY: (Shape(1_000, 100), Shape(10_000, 500)),
    Extent.FULL: (Shape(1_000, 100), Shape(10_000, 500), Shape(100_000, 500)),
}
ROUNDS: Final[Mapping[int, int]] = {1_000: 3}
"""How often a size is measured, each time on a cluster of its own; once where nothing is said."""
LOADED: Final = 10_000
"""The size at which reaction and cancelling have goals."""
TRIALS: Final = 100
MANY: Final = "many"
"""Topics whose copies never end."""
READY_S: Final = 10.0
RECOVERY_GOAL: Final = 1.5
"""Times the bare reads."""
FIRST_GOAL_S: Final = 1.5
CANCEL_GOAL_S: Final = 5.0
MEMORY_GOAL_KB: Final = 3.0
_MEMORY: Final = {"VmRSS": "", "VmHWM": " at the peak of taking them up"}
"""The kernel's figures of a process, and their names here."""
CANCEL: Final = "/admin/cancel_reassignment_in_progress"
_WINDOW: Final = 1000
_SAMPLE: Final = 100
_MULTI: Final = 400
"""Operations of a multi, as the daemon's."""
BARE: Final = "/bare"
"""Copies of states, for writes that disturb nothing."""


class Recovery(NamedTuple):
    """Seconds after the kill -9."""

    expired: float
    """The session of the daemon that was killed."""
    claimed: float
    first: float
    """The first state written anew, at once followed by its requests."""
    all: float


def measure(extent: Extent) -> list[Figure]:
    """Measure every size, each round on a cluster of its own."""
    figures: list[Figure] = []
    for shape in SHAPES[extent]:
        rounds: list[list[Sample]] = []
        for _ in range(ROUNDS.get(shape.partitions, 1)):
            with Cluster.running(BESIDE_THE_FLEET) as cluster, fleet(cluster, behind=MANY):
                samples, reaction = _measure(cluster, shape)
            rounds.append(samples)
            figures += reaction
        figures += [reduced(of_one) for of_one in zip(*rounds, strict=True)]
    return figures


def _measure(cluster: Cluster, shape: Shape) -> tuple[list[Sample], list[Figure]]:
    samples: list[Sample] = []
    reaction: list[Figure] = []
    ground, small = Ground(cluster, shape, MANY), Ground(cluster, Shape(TRIALS, TRIALS), "small")
    early = Ground(cluster, Shape(TRIALS, TRIALS), "early")
    for part in (ground, small, early):
        part.make()
    with daemon_in_charge(cluster, "1") as first:
        time.sleep(READY_S + shape.partitions / 2000)
        idle = {key: memory_kb(first.pid, key) for key in _MEMORY}
        targets = ground.targets()
        submit_requests(cluster, targets)
        if shape.partitions == LOADED:
            reaction += _beside_the_beginning(cluster, first, early, shape)
        eventually(
            lambda: _in_flight(first) >= shape.partitions,
            within_s=1800,
            every_s=1.0,
            what=f"{shape} are in flight",
            tolerating=(OSError,),
        )
        samples += [
            Sample(
                f"memory of a partition in flight{what}, {shape}",
                (memory_kb(first.pid, key) - idle[key]) / shape.partitions,
                "KB",
                limit=MEMORY_GOAL_KB,
            )
            for key, what in _MEMORY.items()
        ]
        if shape.partitions == LOADED:
            reaction += _reaction(cluster, first, small, shape)
        first.kill()
        killed_at = time.time()
        epoch = controller_epoch(cluster)
        with daemon_in_charge(cluster, "1"):
            samples += _recovery(cluster, shape, targets, killed_at, epoch)
            samples.append(_cancel(cluster, shape))
    return samples, reaction


def _in_flight(daemon: Daemon) -> int:
    return sum(int(r["partitions"]["in_flight"]) for r in daemon.status()["requests"])


def _beside_the_beginning(
    cluster: Cluster, daemon: Daemon, early: Ground, shape: Shape
) -> list[Figure]:
    """Move one partition after the other until all that was submitted before them is in flight."""
    sent_s: list[float] = []
    for topic, partitions in early.targets().items():
        if _in_flight(daemon) >= shape.partitions:
            break
        sent_s.append(_to_first_request_s(cluster, daemon, topic, partitions))
    what = f"submission to first LeaderAndIsr while {shape.partitions} begin"
    return [in_milliseconds(what, sent_s, goal_ms=250)]


def _to_first_request_s(
    cluster: Cluster, daemon: Daemon, topic: str, partitions: dict[int, list[int]]
) -> float:
    journal = journal_of(daemon)
    offset = journal.stat().st_size
    started = time.time()
    submit_requests(cluster, {topic: partitions})
    sent = eventually(partial(sent_at, journal, offset, topic), within_s=60, every_s=0.05)
    assert sent is not None
    return sent - started


def _reaction(cluster: Cluster, daemon: Daemon, small: Ground, shape: Shape) -> list[Figure]:
    """Move one partition after the other beside what is in flight."""
    targets = small.targets()
    sent_s = [_to_first_request_s(cluster, daemon, *one) for one in targets.items()]
    eventually(lambda: small.ended(targets) == TRIALS, within_s=60, what="the small ones are moved")
    paths = tuple(f"/brokers/topics/{topic}" for topic in targets)
    history = [w for w in writes(cluster) if w.path.startswith(paths)]  # not those of the many
    return [
        in_milliseconds(
            f"submission to first LeaderAndIsr with {shape.partitions} in flight",
            sent_s,
            goal_ms=250,
        ),
        in_milliseconds(
            f"ISR change to the step's final write with {shape.partitions} in flight",
            [took for topic in targets for took in isr_to_end_s(history, topic, 0)],
            goal_ms=250,
        ),
    ]


def _recovery(
    cluster: Cluster,
    shape: Shape,
    targets: dict[str, dict[int, list[int]]],
    killed_at: float,
    epoch: int,
) -> list[Sample]:
    """Wait until every state was written anew by the new daemon, then look when that was."""
    paths = [
        f"/brokers/topics/{topic}/partitions/{n}/state"
        for topic, partitions in targets.items()
        for n in partitions
    ]
    sample = paths[:: max(1, len(paths) // _SAMPLE)]

    def is_rebuilt() -> bool:
        found = (cluster.read(path) or {"controller_epoch": 0} for path in sample)
        return all(state["controller_epoch"] > epoch for state in found)

    eventually(is_rebuilt, within_s=1800, every_s=2.0, what=f"{shape} are taken up")
    time.sleep(5.0)
    known = set(paths)
    log = transactions_of(cluster.zookeepers)
    history = writes_in(log, cluster.options.chroot)
    claims = [w for w in history if w.path == "/controller_epoch" and w.data is not None]
    former = next(w.session for w in claims if int(w.data or 0) == epoch)
    expired = next(t for t in log if t.ends_session and t.session == former).at_ms
    # The broker is the controller in between: it claims the role as soon as the session ends.
    ours = claims[-1]
    rebuilt: dict[str, int] = {}
    for write in history:
        if write.path in known and write.session == ours.session:
            rebuilt.setdefault(write.path, write.at_ms)
    assert len(rebuilt) == len(known), (len(rebuilt), len(known))
    took = Recovery(
        expired / 1000 - killed_at,
        ours.at_ms / 1000 - killed_at,
        min(rebuilt.values()) / 1000 - killed_at,
        max(rebuilt.values()) / 1000 - killed_at,
    )
    bare = _bare_reads_s(
        cluster, paths, [f"{REASSIGNMENTS}/{t}/{n}" for t in targets for n in targets[t]]
    )
    written = _bare_writes_s(cluster, paths)
    what = f"kill -9 with {shape} in flight: "
    all_s = took.all - took.expired
    return [
        Sample(what + "until the session ends", took.expired, "s"),
        Sample(what + "from then until the role is claimed", took.claimed - took.expired, "s"),
        Sample(
            what + "from then to the first state",
            took.first - took.expired,
            "s",
            limit=FIRST_GOAL_S if shape.partitions == LOADED else None,
        ),
        Sample(
            what + "from then to every state written anew",
            all_s,
            "s",
            limit=RECOVERY_GOAL,
            beside=bare,
            beside_what="the bare reads",
        ),
        Sample(
            what + "the same",
            all_s,
            "s",
            beside=bare + written,
            beside_what="the bare reads and writes",
        ),
        Sample(f"reading the znodes of {shape} with kazoo alone", bare, "s"),
        Sample(f"writing the states of {shape} in multis with kazoo alone", written, "s"),
    ]


def _bare_reads_s(cluster: Cluster, *paths: Iterable[str]) -> float:
    """Read znodes with kazoo and do nothing with them; return the seconds."""
    started = time.monotonic()
    pending: deque[object] = deque()
    for path in (p for some in paths for p in some):
        pending.append(cluster.zk.get_async(path))
        if len(pending) >= _WINDOW:
            _drain(pending, _WINDOW // 2)
    _drain(pending, 0)
    return time.monotonic() - started


def _bare_writes_s(cluster: Cluster, paths: Sequence[str]) -> float:
    """Write copies of states in multis with kazoo; return the seconds."""
    zk = cluster.zk
    zk.ensure_path(BARE)
    data, _ = zk.get(paths[0])
    pending: deque[object] = deque()
    for n in range(len(paths)):
        pending.append(zk.create_async(f"{BARE}/{n}", data))
        if len(pending) >= _WINDOW:
            _drain(pending, _WINDOW // 2)
    _drain(pending, 0)
    started = time.monotonic()
    for at in range(0, len(paths), _MULTI):
        multi = zk.transaction()
        for n in range(at, min(at + _MULTI, len(paths))):
            multi.set_data(f"{BARE}/{n}", data, version=0)
        pending.append(multi.commit_async())
    _drain(pending, 0)
    return time.monotonic() - started


def _drain(pending: deque[object], left: int) -> None:
    while len(pending) > left:
        pending.popleft().get()  # type: ignore[attr-defined] # kazoo has no types


def _cancel(cluster: Cluster, shape: Shape) -> Sample:
    started = time.monotonic()
    cluster.zk.create(CANCEL, b"")
    eventually(
        lambda: cluster.zk.exists(CANCEL) is None and not has_goals(cluster),
        within_s=1800,
        every_s=0.1,
        what=f"{shape} are cancelled",
    )
    took = time.monotonic() - started
    limit = CANCEL_GOAL_S if shape.partitions == LOADED else None
    return Sample(f"cancelling {shape} in flight", took, "s", limit=limit)
