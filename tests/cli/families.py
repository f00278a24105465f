"""
The families of znodes that commands read and write, over a fake cluster.

Each fake overrides the methods that commands call, so that mypy compares their signatures with
those of ``zk``. What a family composes of its other methods is not overridden.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from controller.core import model
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, RequestId, TopicPartition
from controller.core.pacing.controls import Controls, Drains, Evacuations, Limits, Pauses
from controller.core.pacing.throttle_settings import (
    AppliedThrottle,
    Entity,
    broker_entity,
    topic_entity,
)
from controller.core.reassignments.model import Orphan
from controller.core.requests.outcomes import RequestHistory, Summary
from controller.core.requests.submissions import (
    NO_DIRS,
    AcceptedEntry,
    Cancellation,
    LegacyPlan,
    NamedDirs,
    Submission,
    Throttle,
)
from controller.doctor.snapshot import Znodes
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.reactor.ports import Check
from controller.settings import HttpAccess
from controller.zk.cluster_znodes import ClusterZnodes, PartitionZnodes, ThrottleZnodes
from controller.zk.operator_client import OperatorClient
from controller.zk.request_writes import RequestWrites
from controller.zk.request_znodes import OutcomeZnodes, RequestZnodes
from controller.zk.retirement import Retired, Retirement, ThrottleWrites
from controller.zk.znode_survey import ZnodeSurvey
from controller.znodes import operator_controls, paths
from controller.znodes.cancellations import KillSwitch, combine

if TYPE_CHECKING:
    from tests.cli.builders import FakeCluster

OWN_ID = RequestId("req-20250615T150640Z-0a1b2c")
"""The id that a client chooses."""

DRAIN_CZXID = model.Zxid(77)
Entries = Mapping[TopicPartition, model.Replicas]


class FakeOperator(OperatorClient):
    """The client of a command, without a connection."""

    def __init__(self, found: FakeCluster) -> None:
        self._found = found
        self.http_access = HttpAccess()
        self.cluster = FakeClusterZnodes(found)
        self.partitions = FakePartitionZnodes(found)
        self.requests = FakeRequestZnodes(found)
        self.outcomes = FakeOutcomeZnodes(found)
        self.throttles = FakeThrottleZnodes()
        self.writes = FakeRequestWrites(found)
        self.throttle_writes = FakeThrottleWrites(found)
        self.retirement = FakeRetirement(found)
        self.survey = FakeZnodeSurvey(found)

    def newest_outcomes(self) -> tuple[Summary, ...]:
        """Return how requests ended."""
        return self._found.ended

    @contextmanager
    def noting_hidden(self) -> Iterator[Collection[str]]:
        """Return what may not be read."""
        yield self._found.snapshot.znodes.hidden


class FakeZnodeSurvey(ZnodeSurvey):
    """The znodes of the snapshot."""

    def __init__(self, found: FakeCluster) -> None:
        self._found = found

    def everything(self) -> Znodes:
        """Return the znodes of the snapshot."""
        quiesce = self._found.controls.pauses.quiesce
        return replace(self._found.snapshot.znodes, quiesce=quiesce)

    def work(self) -> Znodes:
        """Return the znodes of the snapshot."""
        return self.everything()


class FakeClusterZnodes(ClusterZnodes):
    """Brokers and daemons."""

    def __init__(self, found: FakeCluster) -> None:
        self._found = found

    def broker_ids(self) -> frozenset[BrokerId]:
        """Return registered brokers."""
        return frozenset(BrokerId(b) for b in self._found.brokers)

    def brokers(self) -> dict[BrokerId, LiveBroker]:
        """Return the brokers of the snapshot, and the others where there are topics."""
        found = dict(self._found.snapshot.znodes.brokers)
        for broker in sorted(self.broker_ids()) if self._found.topics else ():
            epoch, rack = model.BrokerEpoch(broker), self._found.racks.get(broker)
            found[broker] = LiveBroker(broker, epoch, (), rack)
        return found

    def cluster_id(self) -> str | None:
        """Return the id of the cluster."""
        return self._found.id

    def leader_address(self) -> str | None:
        """Return where the leader listens."""
        return self._found.leader

    def daemons(self) -> tuple[str | None, ...]:
        """Return the leader and the standbys."""
        return (self._found.leader, *self._found.standbys) if self._found.leader else ()


class FakePartitionZnodes(PartitionZnodes):
    """Topics, and records of reassignments."""

    def __init__(self, found: FakeCluster) -> None:
        self._found = found

    def topic_names(self) -> list[str]:
        """Return the names of all topics."""
        return sorted(self._found.topics)

    def readable_topics(self) -> dict[str, model.TopicAssignment]:
        """Return the topics of the snapshot and the others."""
        return {**self._found.snapshot.topics_before, **super().readable_topics()}

    def topics(self, names: Iterable[str]) -> dict[str, model.TopicAssignment | str | None]:
        """Return topics."""
        return {n: self._found.topics.get(n) for n in names}

    def states(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, model.PartitionState | str | None]:
        """Return states."""
        return {p: self._found.states.get(p) for p in partitions}

    def deletions(self) -> frozenset[str]:
        """Return topics queued for deletion."""
        return self._found.deletions

    def reassigned_partitions(self, topics: Iterable[str] | None = None) -> list[TopicPartition]:
        """Return the partitions with a record."""
        wanted = None if topics is None else set(topics)
        return sorted(p for p in self._found.specs if wanted is None or p.topic in wanted)

    def specs(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, model.ReassignmentSpec | str | None]:
        """Return records."""
        return {p: self._found.specs.get(p) for p in partitions}

    def orphans_of(self, partition: TopicPartition) -> tuple[Orphan | str, ...]:
        """Return orphan records."""
        found = self._found.orphans
        return tuple(o for o in found if isinstance(o, str) or o.partition == partition)


class FakeRequestZnodes(RequestZnodes):
    """Plans, requests, cancellation and controls."""

    def __init__(self, found: FakeCluster) -> None:
        self._found = found

    def plan(self) -> LegacyPlan | None:
        """Return the plan."""
        return self._found.plan

    def queue(self) -> LegacyPlan | None:
        """Return the queue."""
        return self._found.queue

    def open(self) -> list[str]:
        """Return the requests that are not accepted yet."""
        return sorted(self._found.submitted)

    def submissions(self, names: Iterable[str]) -> dict[str, Submission | None]:
        """Return submitted requests."""
        return {name: self._found.submitted.get(name) for name in names}

    def cancellation(self) -> Cancellation | None:
        """Return the cancellation."""
        return self._found.cancellation

    def is_disabled(self) -> bool:
        """Return whether the kill switch is set."""
        return self._found.switch is not None

    def kill_switch(self) -> KillSwitch | None:
        """Return the kill switch."""
        return self._found.switch

    def controls(self) -> Controls:
        """Return the controls."""
        return self._found.controls

    def evacuations(self) -> Evacuations:
        """Return the evacuated brokers."""
        return self._found.evacuations


class FakeOutcomeZnodes(OutcomeZnodes):
    """What is kept of requests."""

    def __init__(self, found: FakeCluster) -> None:
        self._found = found

    def outcome(self, request: RequestId) -> Summary | str | None:
        """Return how a request ended."""
        return self._found.outcomes.get(request)

    def requests(self) -> list[RequestId]:
        """Return the requests of which anything is kept."""
        return list(self._found.histories)

    def ended_requests(self) -> dict[RequestId, bool]:
        """Return the requests of which anything is kept."""
        return {name: h.summary is not None for name, h in self._found.histories.items()}

    def histories(
        self, requests: Iterable[RequestId] | None = None
    ) -> dict[RequestId, RequestHistory]:
        """Return what is kept of requests."""
        known = self._found.histories
        wanted = known if requests is None else requests
        return {name: known[name] for name in wanted if name in known}

    def accepted_entries(self, request: RequestId) -> tuple[AcceptedEntry, ...]:
        """Return accepted entries."""
        return tuple(self._found.accepted.get(request, ()))


class FakeThrottleZnodes(ThrottleZnodes):
    """Settings of topics: none."""

    def __init__(self) -> None: ...

    def topic_settings(self) -> dict[str, Mapping[str, str]]:
        """Return that no topic has any."""
        return {}


class FakeRequestWrites(RequestWrites):
    """Writes of plans, requests, cancellation and controls."""

    def __init__(self, found: FakeCluster) -> None:
        self._found = found

    def create_plan(self, entries: Entries, log_dirs: NamedDirs = NO_DIRS) -> model.Zxid:
        """Write a plan where there is none."""
        return self._found.create_plan(entries, log_dirs)

    def extend_plan(self, entries: Entries, log_dirs: NamedDirs = NO_DIRS) -> model.Zxid:
        """Add to the plan."""
        return self._found.extend_plan(entries, log_dirs)

    def submit(self, data: bytes) -> str:
        """Take a request."""
        return self._found.submit(data)

    def new_request_id(self) -> RequestId:
        """Return the same id each time."""
        return OWN_ID

    def cancel(self, wanted: Cancellation, *, wait_s: float = 0.0) -> Cancellation:  # noqa: ARG002 - nothing is selected by waiting
        """Write a cancellation, or change the one that exists."""
        return self._found.cancel(lambda found: combine(found, wanted))

    def disable(self, switch: KillSwitch) -> KillSwitch | None:
        """Set the kill switch."""
        before = self._found.switch
        self._found.switch = before or switch
        return before

    def enable(self) -> bool:
        """Remove the kill switch."""
        was_on = self._found.switch is not None
        self._found.switch = None
        return was_on

    def create_queue(self, entries: Entries, log_dirs: NamedDirs = NO_DIRS) -> model.Zxid:
        """Write a queue where there is none."""
        return self._found.create_queue(entries, log_dirs)

    def take_from_queue(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Remove entries."""
        queue = self._found.queue
        if queue is None:
            return frozenset()
        taken = frozenset(partitions) & queue.entries.keys()
        left = {p: r for p, r in queue.entries.items() if p not in taken}
        self._found.queue = replace(queue, entries=left) if left else None
        return taken

    def clear_queue(self) -> LegacyPlan | None:
        """Remove the queue."""
        queue, self._found.queue = self._found.queue, None
        return queue

    def edit_pauses(self, change: Callable[[Pauses], Pauses], *, dry_run: bool = False) -> Pauses:
        """Change the pauses."""
        controls = self._found.controls
        after = operator_controls.decode_pauses(
            operator_controls.encode_pauses(change(controls.pauses))
        )
        if isinstance(after, str):
            raise InvalidInputError(after)
        if not dry_run:
            self._found.controls = replace(controls, pauses=after)
        return after

    def edit_limits(self, change: Callable[[Limits], Limits], *, dry_run: bool = False) -> Limits:
        """Change the limits."""
        controls = self._found.controls
        after = operator_controls.decode_limits(
            operator_controls.encode_limits(change(controls.limits))
        )
        if isinstance(after, str):
            raise InvalidInputError(after)
        if not dry_run:
            self._found.controls = replace(controls, limits=after)
        return after

    def edit_drains(self, change: Callable[[Drains], Drains], *, dry_run: bool = False) -> Drains:
        """Change the drained brokers; the znode is created with the first of them."""
        controls = self._found.controls
        before = controls.drains
        after = change(before)
        version = model.ZkVersion(before.version + 1 if before.brokers else 0)
        data = operator_controls.encode_drains(after)
        read = operator_controls.decode_drains(data, version, DRAIN_CZXID)
        if isinstance(read, str):
            raise InvalidInputError(read)
        if dry_run:
            return after
        self._found.controls = replace(controls, drains=read if read.brokers else Drains())
        return self._found.controls.drains

    def edit_evacuations(
        self, change: Callable[[Evacuations], Evacuations], *, dry_run: bool = False
    ) -> Evacuations:
        """Change the evacuations."""
        after = operator_controls.decode_evacuations(
            operator_controls.encode_evacuations(change(self._found.evacuations))
        )
        if isinstance(after, str):
            raise InvalidInputError(after)
        if not dry_run:
            self._found.evacuations = after
        return after

    def set_throttle(self, throttle: Throttle | None) -> Throttle | None:
        """Change the throttle."""
        before = self._found.controls.throttle
        self._found.controls = replace(self._found.controls, throttle=throttle)
        return before


class FakeThrottleWrites(ThrottleWrites):
    """Removal of throttles."""

    def __init__(self, found: FakeCluster) -> None:
        self._found = found

    def clear(
        self, *, brokers: Iterable[BrokerId] = (), topics: Iterable[str] = ()
    ) -> frozenset[Entity]:
        """Remove throttles that no daemon set."""
        wanted = {*map(broker_entity, brokers), *map(topic_entity, topics)}
        cleared = frozenset(wanted & self._found.throttled)
        self._found.throttled -= cleared
        return cleared

    def lift(
        self, applied: AppliedThrottle, lock: Check | None = None
    ) -> Mapping[str, str | None] | None:
        """Restore the settings before a throttle."""
        del lock
        if self._found.others_are_faster:
            return None
        self._found.lifted.append(applied.entity)
        return {key: applied.before[key] for key in applied.ours}


class FakeRetirement(Retirement):
    """The end of the daemon."""

    def __init__(self, found: FakeCluster) -> None:
        self._found = found

    def retire(self) -> Iterator[Retired]:
        """Restore the throttles of the snapshot and delete its records."""
        self.refuse_daemons()
        for entity, applied in self._found.snapshot.znodes.applied_throttles.items():
            self._found.lifted.append(entity)
            yield Retired(entity, "removed the throttle of", applied.before)
        stays = "stays: it is unreadable"
        yield Retired(paths.REASSIGNMENTS, "deleted 2 znodes:")
        if self._found.others_are_faster:
            yield Retired(paths.ROOT, stays, is_done=False, stays=True)

    def refuse_daemons(self, candidacy: str | None = None) -> None:  # noqa: ARG002 - it holds no lock
        """Refuse where a daemon lives."""
        if self._found.snapshot.znodes.daemons:
            raise ReassignmentConflictError("a daemon leads (daemon:8095): stop it first")

    def records(self) -> list[str]:
        """Return what would be deleted."""
        return [paths.REASSIGNMENTS, paths.ROOT]
