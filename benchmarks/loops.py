"""
The cost of a partition in the loop: ``python -m benchmarks.loops [PARTITIONS [TOPICS]]``.

The real loop with all of its telemetry on the simulated cluster of the tests; what is counted is
the processor time of the loop's thread in its turns, without the simulated ZooKeeper's. On a busy
machine the same work takes up to twice the processor time. So the time is also compared with a
fixed piece of work that is done after each turn: only the ratio says something about the code.
``python -m benchmarks.loops --check`` fails when the ratio is ``RISE_MAX`` times ``EXPECTED``. The
fixed work is not the same share of every processor's time: on one that is not listed there, the
ratio is only printed.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from benchmarks.figures import processor
from controller.core.core_settings import Options
from controller.core.model import BrokerId, LeaderEpoch, TopicPartition
from controller.core.reassignments.records import StopReplicaResult
from controller.core.requests.submissions import RequestOptions
from controller.core.view import ClusterView
from controller.daemon import GARBAGE_THRESHOLD
from controller.reactor.loop import Reactor
from controller.reactor.ports import Committed, Operation, Rejected
from controller.telemetry.journal import Journal
from controller.telemetry.logs import configure_logging
from controller.telemetry.metrics import Metrics
from controller.telemetry.observer import TelemetryObserver
from controller.telemetry.status_publisher import StatusPublisher
from tests.sim.daemons import Ports
from tests.sim.store import SimStore
from tests.sim.world import World

NEVER_S: Final = 1e9
UNLIMITED: Final = 1_000_000
ENDS_WITHIN_S: Final = 2000.0
COMPARED_SHARE: Final = 0.4
"""The time for the fixed piece of work, as a share of the time of the turns."""
EXPECTED: Final[Mapping[str, float]] = {"AMD EPYC": 1.38}
"""The ratio of the present code by the model of the processor; to be lowered with it."""
RISE_MAX: Final = 1.15
RUNS: Final = 5
ATTEMPTS: Final = 2
"""How often ``--check`` takes the median of the runs: a defect is slow each time."""
CHECK: Final = "--check"


class FixedWork:
    """A piece of work that no version changes, of what the loop does: look-ups and new values."""

    def __init__(self) -> None:
        self._numbers = {TopicPartition(f"t{n % 100}", n): n for n in range(20_000)}
        self._keys = list(self._numbers)
        self._at = 0
        self.pieces = 0
        self.seconds = 0.0

    def compare(self, seconds: float) -> None:
        """Do pieces of it for at least this long."""
        until = self.seconds + seconds
        while self.seconds < until:
            begun = time.thread_time()
            self._do()
            self.seconds += time.thread_time() - begun
            self.pieces += 1

    def _do(self) -> None:
        results: dict[BrokerId, list[str]] = {}
        for _ in range(300):
            self._at = (self._at + 7_919) % len(self._keys)
            partition = self._keys[self._at]
            number = self._numbers.get(partition, 0)
            replicas = tuple(BrokerId(r) for r in range(number % 97, number % 97 + 3))
            record = StopReplicaResult(partition, LeaderEpoch(number), delete=True, error=0)
            if record.partition == partition and not record.error:
                results.setdefault(max(replicas), []).append(f"{record.partition}: {number}")

    @property
    def each_s(self) -> float:
        """The processor seconds of one piece."""
        return self.seconds / self.pieces


@dataclass
class Spent:
    """Processor seconds."""

    turns: float = 0.0
    simulated: float = 0.0
    """Of the turns, what the simulated ZooKeeper took."""

    @property
    def loop(self) -> float:
        """What the loop took."""
        return self.turns - self.simulated


class MeasuredLoop(Reactor):
    """A loop that measures its cycles."""

    spent: Spent
    observer: TelemetryObserver
    fixed: FixedWork

    def run_cycle(self) -> None:
        """Run a cycle, and publish as the daemon does."""
        before, begun = self.spent.loop, time.thread_time()
        super().run_cycle()
        self.observer.tend(self.view)
        self.spent.turns += time.thread_time() - begun
        self.fixed.compare(COMPARED_SHARE * (self.spent.loop - before))


def measured(store: SimStore, spent: Spent) -> SimStore:
    """Have the commits of a simulated store measured."""
    commit = store.commit

    def timed(multis: Sequence[Sequence[Operation]]) -> list[Committed | Rejected]:
        begun = time.thread_time()
        try:
            return commit(multis)
        finally:
            spent.simulated += time.thread_time() - begun

    store.commit = timed  # type: ignore[method-assign] # only what is seen of it is measured
    return store


def _pair(n: int, distance: int) -> list[int]:
    return [1 + n % 5, 1 + (n + distance) % 5]


def _wall() -> datetime:
    return datetime.now(tz=UTC)


def cost(
    partitions: int, topics: int, directory: Path, stack: ExitStack
) -> tuple[float, FixedWork]:
    """Move a replica of each partition; return the loop's processor seconds, and what compares."""
    lines = configure_logging("json", "info", stack.enter_context((directory / "log").open("w")))
    stack.callback(lines.close)
    journal = Journal(directory)
    journal.start()
    stack.callback(journal.close)
    world, spent, fixed = World(1, produce_every_s=NEVER_S), Spent(), FixedWork()
    each = partitions // topics
    for t in range(topics):
        world.create_topic(f"t{t}", {n: _pair(n, 1) for n in range(each)}, produce=False)
    world.run_for(60)

    def build(ports: Ports) -> Reactor:
        assert isinstance(ports.store, SimStore)
        observer = TelemetryObserver(
            log=structlog.stdlib.get_logger("controller"),
            metrics=Metrics(),
            journal=journal,
            publisher=StatusPublisher(
                clock=ports.clock, wall=_wall, engine="native", stalled_after_s=NEVER_S
            ),
            clock=ports.clock,
            wall=_wall,
        )
        options = Options(
            max_partitions_in_flight=UNLIMITED,
            max_incoming_per_broker=UNLIMITED,
            max_outgoing_per_broker=UNLIMITED,
        )
        loop = MeasuredLoop(
            view=ClusterView(options=options),
            store=measured(ports.store, spent),
            channels=ports.channels,
            configs=ports.configs,
            clock=ports.clock,
            observer=observer,
        )
        loop.spent, loop.observer, loop.fixed = spent, observer, fixed
        return loop

    loop = world.add_daemon(build).loop
    assert isinstance(loop, MeasuredLoop)
    world.run_for(40)
    spent.turns = spent.simulated = 0.0
    fixed.pieces, fixed.seconds = 0, 0.0
    entries = {TopicPartition(f"t{t}", n): _pair(n, 2) for t in range(topics) for n in range(each)}
    world.submit_request(entries, RequestOptions(step_size="all"))
    world.run_for(1)
    world.run_until(
        lambda: (
            not loop.view.reassignments.by_partition and not loop.view.requests_session.submissions
        ),
        within_s=ENDS_WITHIN_S,
        look_every_s=1,
    )
    return spent.loop, fixed


def main(partitions: int = 1_000, topics: int = 50) -> None:
    """Print what a partition costs."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        seconds, fixed = cost(partitions, topics, Path(name), stack)
    each_s = seconds / partitions
    print(
        f"{partitions} partitions of {topics} topics: {1e3 * each_s:.2f} ms each, "
        f"{each_s / fixed.each_s:.2f} times the fixed work"
    )


def ratio() -> float:
    """Return the ratio to the fixed work, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.loops"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.rpartition(" ms each, ")[2].split()[0])


def check() -> int:
    """Compare the ratio with what is expected; return the exit code."""
    expected = EXPECTED.get(processor())
    if expected is None:
        print(f"the loop takes {ratio():.2f} times the fixed work; nothing to compare with on")
        print(f"{processor()}: see EXPECTED in benchmarks/loops.py")
        return 0
    for _ in range(ATTEMPTS):
        ratios = [ratio() for _ in range(RUNS)]
        found = statistics.median(ratios)
        shown = ", ".join(f"{r:.2f}" for r in ratios)
        print(f"the loop takes {found:.2f} times the fixed work ({shown}), {expected:.2f} expected")
        if found <= RISE_MAX * expected:
            return 0
    print(f"that is more than {RISE_MAX:g} times as much: see benchmarks/README.md")
    return 1


if __name__ == "__main__":
    if sys.argv[1:] == [CHECK]:
        sys.exit(check())
    main(*(int(word) for word in sys.argv[1:]))
