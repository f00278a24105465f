"""Plans of a random campaign, one after the other, and what must be true in the end."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kazoo.exceptions import KazooException, NodeExistsError

from integration.rigs.cluster import Cluster
from integration.rigs.plans import (
    LEGACY_PLAN,
    UNLIMITED,
    is_reassigning,
    limit_copies,
    orphans,
    outcome,
    plan_of,
    specs,
)
from integration.rigs.requests import reassigner

_FACTORS: Final = (3, 3, 3, 4, 5)
"""Replication factors of targets. Two replicas would take no records while one is dead."""
_RATES: Final = (500_000, 1_000_000, 3_000_000, UNLIMITED)
_Where = tuple[str, int]


@dataclass
class Plan:
    """One plan and what became of it."""

    number: int
    request: str
    targets: Mapping[_Where, tuple[int, ...]]
    begun: float = field(default_factory=time.monotonic)

    @property
    def age_s(self) -> float:
        """The time since it was submitted, in seconds."""
        return time.monotonic() - self.begun


@dataclass(frozen=True)
class PlanEnd:
    """The result of a plan."""

    moved: int
    refused: list[str]
    wrong: list[str]
    """Partitions that are neither where they should be nor refused."""


class Planner:
    """
    Draws plans and submits them.

    Args:
        cluster: Where.
        topics: Number of partitions by topic.
        dice: Where chance comes from.
    """

    def __init__(self, cluster: Cluster, topics: Mapping[str, int], dice: random.Random) -> None:
        self._cluster = cluster
        self._topics = dict(topics)
        self._dice = dice
        self._made = 0

    def submit(self) -> Plan | None:
        """Draw and submit the next plan; None where the cluster does not take one now."""
        cluster = self._cluster
        if not all(cluster.is_registered(broker) for broker in cluster.brokers):
            return None  # targets on dead brokers are refused
        targets = self._draw()
        try:
            limit_copies(cluster, (), self._dice.choice(_RATES))
            _, stat = cluster.zk.create(
                LEGACY_PLAN, json.dumps(plan_of(targets)).encode(), include_data=True
            )
        except (NodeExistsError, KazooException):
            return None
        self._made += 1
        return Plan(self._made, f"legacy-{stat.czxid:016x}", targets)

    def ended(self, plan: Plan) -> PlanEnd | None:
        """Return how a plan ended, None while it has not."""
        cluster = self._cluster
        if cluster.zk.exists(LEGACY_PLAN) is not None or specs(cluster):
            return None
        if any(is_reassigning(cluster, topic) for topic in self._topics):
            return None
        summary = outcome(cluster, plan.request) or {"refused": []}
        refused = {row["entry"].partition(" -> ")[0] for row in summary["refused"]}
        missed = [
            (topic, n)
            for (topic, n), replicas in plan.targets.items()
            if cluster.replicas(topic, n) != list(replicas)
        ]
        return PlanEnd(
            moved=len(plan.targets) - len(missed),
            refused=[
                f"{row['entry']}: {row['reason']}: {row['detail']}" for row in summary["refused"]
            ],
            wrong=[
                f"{topic}-{n} has {cluster.replicas(topic, n)}, not {plan.targets[topic, n]}"
                for topic, n in missed
                if f"{topic}-{n}" not in refused
            ],
        )

    def _draw(self) -> dict[_Where, tuple[int, ...]]:
        partitions = [(topic, n) for topic, count in self._topics.items() for n in range(count)]
        chosen = self._dice.sample(partitions, self._dice.randint(3, len(partitions)))
        brokers = list(self._cluster.brokers)
        return {
            where: tuple(self._dice.sample(brokers, self._dice.choice(_FACTORS)))
            for where in sorted(chosen)
        }


def out_of_sync(cluster: Cluster, topics: Mapping[str, int]) -> list[str]:
    """Return every partition that lacks a leader or a replica that is not just being added."""
    found = []
    for topic, count in topics.items():
        content = cluster.topic(topic) or {}
        for n in range(count):
            adding = content.get("adding_replicas", {}).get(str(n), ())
            settled = {r for r in content["partitions"][str(n)] if r not in adding}
            state = cluster.state(topic, n) or {"leader": -1, "isr": []}
            if state["leader"] == -1 or not settled <= set(state["isr"]):
                found.append(f"{topic}-{n} has replicas {sorted(settled)}, state {state}")
    return found


def remains(cluster: Cluster, topics: Mapping[str, int], engine: str) -> list[str]:
    """
    Return in words what should not be there when everything has ended and all is whole.

    With the delegated engine no request of Kafka deletes a log that a broker kept because it was
    dead: ``doctor`` has to name it.
    """
    found = [f"{LEGACY_PLAN} exists"] if cluster.zk.exists(LEGACY_PLAN) is not None else []
    found += [f"record {spec}" for spec in specs(cluster)]
    if engine == "native":
        found += [f"orphan record {orphan}" for orphan in sorted(orphans(cluster))]
    found += [f"{topic} is reassigning" for topic in topics if is_reassigning(cluster, topic)]
    found += out_of_sync(cluster, topics)
    if cluster.controller_broker() is None:
        found.append("no broker is the controller")
    for broker in cluster.brokers:
        assigned = {
            f"{topic}-{n}"
            for topic, count in topics.items()
            for n in range(count)
            if broker in cluster.replicas(topic, n)
        }
        on_disk = {
            name
            for name in cluster.replica_directories(broker)
            if name.rpartition("-")[0] in topics
        }
        left = on_disk - assigned
        if left and engine == "delegated":
            left -= _named_by_doctor(cluster, broker)
        found += [f"broker {broker} has an orphan {name}" for name in sorted(left)]
        found += [f"broker {broker} has no {name}" for name in sorted(assigned - on_disk)]
    return found


def _named_by_doctor(cluster: Cluster, broker: int) -> set[str]:
    """Return the logs that ``doctor`` finds on a broker and that are no replicas."""
    found = json.loads(reassigner(cluster, "doctor", "--json").stdout)["findings"]
    subjects = [f["subject"] for f in found if f["check"] in {"stray_log", "orphan"}]
    on_it = f" on broker {broker}"
    return {subject.removesuffix(on_it) for subject in subjects if subject.endswith(on_it)}
