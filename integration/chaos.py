"""
``make chaos``: a random campaign on real brokers. Plans and faults from one seed, under load.

It ends with everything healed and a verdict: exit code 0 only if every plan came to its end, every
acknowledged record can be read, and nothing is left over. The seed decides what is drawn, not what
happens: how far a copy is when a broker dies is up to the machine.

Copies are limited by operators, for all followers of a topic (``*``). A member of the ISR that is a
record behind shares that limit, so pauses of single partitions are longer than the faults.

With ``--disk-mb`` each log directory is a file system of that size, and none may have been full; no
disk fails then. It has to have room for all partitions: a plan that does not fit waits for ever.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from kazoo.exceptions import KazooException

from integration.rigs.chaos_daemons import Fleet
from integration.rigs.chaos_faults import ClusterFaults, DaemonFaults, Fault
from integration.rigs.chaos_plans import Plan, Planner, out_of_sync, remains
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.conformance import broken_steps, violations
from integration.rigs.engine_matrix import ROWS
from integration.rigs.kafka_jars import KAFKA_3_9, classpath
from integration.rigs.plans import UNLIMITED, fill, limit_copies
from integration.rigs.processes import exit_on_sigterm
from integration.rigs.servers import BrokerOptions
from integration.rigs.small_disks import DiskWatch
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import GaveUpError, eventually

TOPICS: Final = {"orders": 6, "payments": 6, "clicks": 6}
RECORDS_PER_S: Final = 300.0
GIVE_UP_AFTER_S: Final = 300.0
"""Longer than any fault: a record that is given up would prove nothing."""
PATIENCE_S: Final = 150.0
"""How long a plan may take amid faults before they pause, and how long it then may still take."""
SYNC_WITHIN_S: Final = 120.0
"""How long replicas may stay out of sync while the cluster below is whole."""
END_WITHIN_S: Final = 240.0
"""Orphans that a tenure could not delete are tried again after a minute."""
MB: Final = 2**20
LEAST_FREE: Final = 0.01
"""The share of a small disk that stays free: half of ``min_free``, which is the daemon's floor."""
SMALL_FILES: Final = {"log.segment.bytes": str(MB), "log.index.size.max.bytes": "65536"}
_TICK_S: Final = 0.25


class Slot:
    """
    A place that breaks now and then, and is whole in between.

    Args:
        draw: Breaks something.
        may_break: Whether it may break now.
        dice: Where chance comes from.
        report: Called with a description of each event.
    """

    def __init__(
        self,
        draw: Callable[[], Fault],
        may_break: Callable[[], bool],
        dice: random.Random,
        report: Callable[[str], None],
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.whole_since = time.monotonic()
        self._draw = draw
        self._may_break = may_break
        self._dice = dice
        self._report = report
        self._fault: Fault | None = None
        self._due = time.monotonic() + 5.0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is broken."""
        return self._fault is None

    def turn(self) -> None:
        """Begin or end the faults that are due."""
        if time.monotonic() < self._due:
            return
        if self._fault is not None:
            self.repair()
        elif self._may_break():
            self._fault = self._draw()
            self.counts[self._fault.kind] += 1
            self._due = time.monotonic() + self._fault.lasts_s
            self._report(f"fault  {self._fault.description}, for {self._fault.lasts_s:.1f} s")

    def repair(self) -> None:
        """End all faults; the next one begins after a while."""
        if self._fault is None:
            return
        fault, self._fault = self._fault, None
        fault.repair()
        self._report(f"repaired {fault.kind}")
        self.whole_since = time.monotonic()
        self._due = time.monotonic() + self._dice.uniform(2.0, 12.0)


class Campaign:
    """
    One campaign.

    Args:
        cluster: With everything that can break.
        seed: Decides what is drawn.
        engine: The daemons' engine.
    """

    def __init__(self, cluster: Cluster, seed: int, engine: str) -> None:
        self._cluster = cluster
        self.began = time.monotonic()
        # One stream for each: what is drawn of one does not hang on how fast another is.
        self.fleet = Fleet(
            cluster,
            cluster.directory / "daemons",
            random.Random(f"{seed} fleet"),
            engine=engine,
        )
        self._planner = Planner(cluster, TOPICS, random.Random(f"{seed} plans"))
        dice = random.Random(f"{seed} cluster")
        below = ClusterFaults(cluster, dice, self.say)
        self._below = Slot(below.draw, self._is_in_sync, dice, self.say)
        dice = random.Random(f"{seed} daemons")
        self._above = Slot(
            DaemonFaults(cluster, self.fleet, dice).draw, lambda: True, dice, self.say
        )
        self._plan: Plan | None = None
        self.problems: list[str] = []
        self.plans = self.moved = self.refused = 0

    @property
    def faults(self) -> Counter[str]:
        """How many faults there were, by kind."""
        return self._below.counts + self._above.counts

    def say(self, text: str) -> None:
        """Print an event, with the seconds since the start."""
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    def run(self, seconds: float) -> None:
        """Play faults for so long, then heal everything and await the end of the last plan."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.problems:
            try:
                self._turn()
            except KazooException as error:
                self.say(f"ZooKeeper does not answer: {type(error).__name__}")
            time.sleep(_TICK_S)
        self._heal()
        self._await_plan()

    def _turn(self) -> None:
        self._follow_plan()
        self._above.turn()
        self._below.turn()
        if not self._below.is_whole:
            return
        if time.monotonic() > self._below.whole_since + SYNC_WITHIN_S and not self._is_in_sync():
            self.problems += out_of_sync(self._cluster, TOPICS)

    def _follow_plan(self) -> None:
        if self._plan is None:
            self._plan = self._planner.submit()
            if self._plan is not None:
                count = len(self._plan.targets)
                self.say(f"plan {self._plan.number} of {count} partitions is submitted")
            return
        end = self._planner.ended(self._plan)
        if end is None:
            if self._plan.age_s > PATIENCE_S:
                self.say(f"plan {self._plan.number} takes long: everything is healed")
                self._heal()
                self._await_plan()
            return
        self.say(f"plan {self._plan.number} ended after {self._plan.age_s:.1f} s")
        for line in end.refused:
            self.say(f"  refused {line}")
        self.plans += 1
        self.moved += end.moved
        self.refused += len(end.refused)
        self.problems += end.wrong
        self._plan = None

    def _await_plan(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self._plan is not None and not self.problems:
            plan = self._plan
            if time.monotonic() > deadline:
                self.problems.append(f"plan {plan.number} is stuck though everything is whole")
                return
            if self._planner.ended(plan) is not None:
                self._follow_plan()
                return
            time.sleep(_TICK_S)

    def _heal(self) -> None:
        self._below.repair()
        self._above.repair()
        self._cluster.heal()
        limit_copies(self._cluster, (), UNLIMITED)
        self.fleet.thaw()
        self.fleet.replace_dead()

    def _is_in_sync(self) -> bool:
        return not out_of_sync(self._cluster, TOPICS)


def prepare(cluster: Cluster) -> None:
    """Create the topics with something to copy in them."""
    brokers = list(cluster.brokers)
    for shift, (topic, count) in enumerate(TOPICS.items()):
        assignment = {
            n: [brokers[(n + shift + k) % len(brokers)] for k in range(3)] for n in range(count)
        }
        cluster.create_topic(topic, assignment, {"min.insync.replicas": "2"})
        fill(cluster, [(topic, n) for n in range(count)])
    limit_copies(cluster, TOPICS, UNLIMITED)


def conduct(cluster: Cluster, seed: int, minutes: float, engine: str) -> list[str]:
    """Run a campaign to its verdict; return every problem in words."""
    prepare(cluster)
    campaign = Campaign(cluster, seed, engine)
    campaign.fleet.start()
    disks = DiskWatch(d for broker in cluster.brokers.values() for d in broker.log_dirs)
    with (
        disks,
        Traffic(
            cluster.bootstrap_servers,
            TOPICS,
            records_per_s=RECORDS_PER_S,
            give_up_after_s=GIVE_UP_AFTER_S,
        ) as traffic,
    ):
        campaign.run(minutes * 60)
        problems = campaign.problems
        try:
            eventually(
                lambda: not remains(cluster, TOPICS, engine),
                within_s=END_WITHIN_S,
                every_s=1.0,
                tolerating=(KazooException,),
            )
        except GaveUpError:
            problems += remains(cluster, TOPICS, engine)
        traffic.stop()
    problems += campaign.fleet.stop()
    problems += campaign.fleet.complaints()
    problems += [f"given up: {count} {error}" for error, count in traffic.failed.items()]
    problems += [*violations(cluster), *broken_steps(cluster.directory / "daemons")]
    found = traffic.audited()
    if not found.is_clean:
        problems.append(f"records: {found}")
    problems += full_disks(cluster, disks)
    given_up = sum(traffic.failed.values())
    print(f"\nseed {seed}, {minutes:g} minutes")
    print(f"plans ended         {campaign.plans}")
    print(f"partitions moved    {campaign.moved}, refused {campaign.refused}")
    print(f"faults              {campaign.faults.total()}")
    for kind, count in sorted(campaign.faults.items()):
        print(f"  {kind:<24}{count}")
    print(f"records             {found.acknowledged} acknowledged, {len(found.missing)} lost,")
    print(f"                    {len(found.duplicates)} twice, {given_up} given up,")
    print(f"                    {traffic.restarts} new epochs of the producer")
    pause = traffic.longest_pause
    until_s = pause.until - campaign.began
    where = f"{pause.topic}-{pause.partition}, until {until_s:.1f} s"
    print(f"longest pause       {pause.seconds:.1f} s of {where}")
    return problems


def full_disks(cluster: Cluster, disks: DiskWatch) -> list[str]:
    """Print how full the small disks were, if they are small; return those that were full."""
    megabytes = cluster.options.broker.disk_mb
    if megabytes is None:
        return []
    least = {str(path): free / (megabytes * MB) for path, free in disks.least_free.items()}
    print(f"fullest disk        {1 - min(least.values()):.1%} of {megabytes} MB")
    return [
        f"{path} had only {share:.2%} free" for path, share in least.items() if share < LEAST_FREE
    ]


def keep_logs(cluster: Cluster, seed: int) -> Path:
    """Copy everything that was written out of a directory that is about to go."""
    kept = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-"))
    shutil.copytree(cluster.directory, kept, dirs_exist_ok=True, ignore_dangling_symlinks=True)
    return kept


def main() -> int:
    """Run a campaign and clean up, whatever happens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(100_000))
    parser.add_argument("--engine", default="native", choices=("native", "delegated"))
    parser.add_argument(
        "--protocol",
        default="2.6",
        help="inter-broker protocol; from 2.7 on, native daemons serve the controller's API",
    )
    releases = {row.release.kafka: row.release for row in ROWS if row.endpoint}
    parser.add_argument(
        "--kafka", default=KAFKA_3_9.kafka, choices=releases, help="release of the brokers"
    )
    parser.add_argument(
        "--disk-mb", type=int, help="size of the file system of each log directory, in MB"
    )
    requested = parser.parse_args()
    exit_on_sigterm()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # ZooKeeper goes away on purpose
    release = releases[requested.kafka]
    classpath(release)
    broker = BrokerOptions(
        release=release, inter_broker_protocol=requested.protocol, log_dirs=2, linked=True
    )
    broker = replace(broker, internal=broker.uses_alter_partition, disk_mb=requested.disk_mb)
    if requested.disk_mb is not None:
        broker = replace(broker, extra=SMALL_FILES)
    options = ClusterOptions(zookeepers=3, broker=broker)
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster.running(options))
        which = f"{requested.engine} engine, Kafka {requested.kafka}, protocol {requested.protocol}"
        print(f"seed {requested.seed}, {requested.minutes:g} minutes, {which}", flush=True)
        try:
            problems = conduct(cluster, requested.seed, requested.minutes, requested.engine)
        except BaseException:
            print(f"logs are kept in {keep_logs(cluster, requested.seed)}", flush=True)
            raise
        if problems:
            print("\nproblems:")
            for problem in problems:
                print(f"  {problem}")
            print(f"logs are kept in {keep_logs(cluster, requested.seed)}")
    print("clean" if not problems else f"{len(problems)} problems: not clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
