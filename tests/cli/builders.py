"""A cluster as commands see it, and a terminal that runs them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from typer.testing import CliRunner, Result

from controller.cli.app import build_app
from controller.cli.context import CommandContext
from controller.core.cluster.model import LiveBroker
from controller.core.model import (
    PartitionAssignment,
    PartitionState,
    ReassignmentSpec,
    Replicas,
    RequestId,
    Route,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Evacuations
from controller.core.pacing.throttle_settings import Entity
from controller.core.reassignments.model import Orphan
from controller.core.requests.outcomes import Summary
from controller.core.requests.submissions import NO_DIRS, LegacyPlan, NamedDirs
from controller.doctor.snapshot import Snapshot
from controller.errors import ControllerError, ReassignmentConflictError, SessionSuspendedError
from controller.settings import HttpAccess, Settings
from controller.zk.operator_client import OperatorClient
from tests.cli.families import FakeOperator
from tests.cli.scripted_answers import AT_MS, ScriptedAnswers
from tests.core.builders import replicas
from tests.doctor.builders import SnapshotBuilder

CZXID = Zxid(0x2A)
REQUEST = RequestId("legacy-000000000000002a")
USER = "ann@desk"

Step = Callable[["FakeCluster"], None]


def a_status(**parts: object) -> dict[str, Any]:
    """Return a status document with nothing to do."""
    return {
        "role": "leader",
        "engine": "native",
        "refused_because": [],
        "tenure": {"held": False, "epoch": None, "since": None},
        "requests": [],
        "partitions": {"in_flight": 0, "waiting": 0},
        "in_flight": [],
        **parts,
    }


def a_partition(**parts: object) -> dict[str, Any]:
    """Return a partition in flight as in ``/status``."""
    return {
        "topic": "t",
        "partition": 0,
        "request": REQUEST,
        "phase": "A2-syncing",
        "step": 1,
        "steps": 3,
        "replicas": [1, 2, 3],
        "target_replicas": [2, 3],
        "isr": [1, 2],
        "leader": 1,
        "blocked_on": None,
        "stalled": False,
        **parts,
    }


def a_request(**counts: int) -> dict[str, Any]:
    """Return a request as in ``/status``."""
    whole = {"total": 2, "done": 0, "in_flight": 0, "waiting": 0, "refused": 0, "cancelled": 0}
    return {
        "id": REQUEST,
        "state": "in_flight",
        "reason": None,
        "refusals": [],
        "waits": [],
        "undone_by": None,
        "cancels": {},
        "undoes": {},
        "partitions": {**whole, **counts},
    }


@dataclass
class FakeCluster(ScriptedAnswers):
    """A cluster in memory; ``operator`` reads and writes it as ``OperatorClient`` does."""

    plan: LegacyPlan | None = None
    brokers: frozenset[int] = frozenset({1, 2, 3, 4})
    racks: dict[int, str] = field(default_factory=dict)
    id: str = "the-cluster"
    min_insync: dict[str, int | str] = field(default_factory=dict)
    """Effective min.insync.replicas of topics, 1 where nothing else is said."""
    throttled: set[Entity] = field(default_factory=set)
    """Entities with a throttle that no daemon set."""
    states: dict[TopicPartition, PartitionState | str] = field(default_factory=dict)
    evacuations: Evacuations = field(default_factory=Evacuations)
    orphans: tuple[Orphan | str, ...] = ()
    ended: tuple[Summary, ...] = ()
    """Newest first."""
    deletions: frozenset[str] = frozenset()
    snapshot: Snapshot = field(default_factory=lambda: SnapshotBuilder(1).build())
    """What `doctor` finds."""
    leader: str | None = "daemon:8095"
    standbys: tuple[str, ...] = ()
    explanations: dict[TopicPartition, Mapping[str, Any]] = field(default_factory=dict)
    """What the daemon answers about partitions; it does not answer about others."""
    statuses: list[Mapping[str, Any]] = field(default_factory=list)
    """What the daemon answers, one after the other; the last one stays."""

    def assign(
        self,
        partition: TopicPartition,
        assigned: Sequence[int],
        *,
        adding: Sequence[int] = (),
        removing: Sequence[int] = (),
    ) -> FakeCluster:
        """Let a topic znode say this of a partition."""
        known = self.topics.get(partition.topic)
        partitions = dict(known.partitions) if isinstance(known, TopicAssignment) else {}
        partitions[partition.partition] = PartitionAssignment(
            replicas(*assigned), replicas(*adding), replicas(*removing)
        )
        self.topics[partition.topic] = TopicAssignment(partitions, ZkVersion(1), Zxid(9))
        return self

    def accept(
        self,
        partition: TopicPartition,
        target: Sequence[int],
        original: Sequence[int] | None = None,
    ) -> None:
        """Let the daemon record an entry and take it out of the plan."""
        self.specs[partition] = ReassignmentSpec(
            replicas(*target),
            None if original is None else replicas(*original),
            REQUEST,
            Route.LEGACY,
            ZkVersion(0),
        )
        self.take_out(partition)

    def take_out(self, partition: TopicPartition) -> None:
        """Take an entry out of the plan, and the plan away with the last one."""
        if self.plan is None:
            return
        left = {p: r for p, r in self.plan.entries.items() if p != partition}
        self.plan = LegacyPlan(left, ZkVersion(self.plan.version + 1), self.plan.czxid)

    def finish(self, partition: TopicPartition, target: Sequence[int]) -> None:
        """Let a reassignment end at its target."""
        self.assign(partition, target)
        self.specs.pop(partition, None)
        self.take_out(partition)
        if self.plan is not None and not self.plan.entries and not self.specs:
            self.plan = None

    # --- what clients write --------------------------------------------------------------------

    def create_plan(
        self, entries: Mapping[TopicPartition, Replicas], log_dirs: NamedDirs = NO_DIRS
    ) -> Zxid:
        """Write a plan where there is none."""
        if self.plan is not None:
            raise ReassignmentConflictError("exists already")
        self.plan = LegacyPlan(dict(entries), ZkVersion(0), CZXID, log_dirs=log_dirs)
        return CZXID

    def extend_plan(
        self, entries: Mapping[TopicPartition, Replicas], log_dirs: NamedDirs = NO_DIRS
    ) -> Zxid:
        """Add to the plan that is there."""
        if self.plan is None:
            return self.create_plan(entries, log_dirs)
        whole = {**self.plan.entries, **entries}
        dirs = {**self.plan.log_dirs, **log_dirs}
        version = ZkVersion(self.plan.version + 1)
        self.plan = LegacyPlan(whole, version, self.plan.czxid, log_dirs=dirs)
        return self.plan.czxid


@dataclass
class Terminal:
    """Runs verbs; time passes only when a verb sleeps, and each sleep lets something happen."""

    cluster: FakeCluster
    steps: list[Step | BaseException] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=lambda: {"REASSIGNER_ZOOKEEPER": "zk:2181"})
    is_terminal: bool = False
    typed: str | None = None
    """What the person answers to questions."""
    unreachable: bool = False
    at: float = 0.0
    ran: list[Settings] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    problem: ControllerError | None = None
    """Why the daemon does not answer, in place of its status."""

    def run(self, *args: str) -> Result:
        """Run a verb and return how it ended."""
        context = CommandContext(
            environ=self.environ,
            connect=self._connect,
            query_brokers=lambda settings, brokers, topics: self.cluster.snapshot.brokers,  # noqa: ARG005 - as the port names them
            judge_settings=lambda settings, znodes: self.cluster.snapshot.settings,  # noqa: ARG005 - as above
            query_min_insync=self._query_min_insync,
            query_protocols=lambda settings, brokers: self.cluster.snapshot.protocols,  # noqa: ARG005 - as above
            cluster_id_of=lambda settings, servers: "the-cluster",  # noqa: ARG005 - as above
            fetch=self._fetch,
            fetch_explanation=self._fetch_explanation,
            run_daemon=self._run_daemon,
            now=lambda: self.at,
            sleep=self._sleep,
            is_terminal=lambda: self.is_terminal,
            wall_ms=lambda: AT_MS,
            name_of_user=lambda: USER,
        )
        return CliRunner().invoke(build_app(context), list(args), input=self.typed)

    def _query_min_insync(
        self,
        settings: Settings,  # noqa: ARG002 - as the port names them
        brokers: Collection[LiveBroker],  # noqa: ARG002 - as above
        topics: Collection[str],
    ) -> Mapping[str, int | str]:
        self.requested.append("min.insync.replicas of " + ",".join(sorted(topics)))
        return {topic: self.cluster.min_insync.get(topic, 1) for topic in topics}

    def _connect(self, settings: Settings) -> AbstractContextManager[OperatorClient]:
        if self.unreachable:
            where = settings.zookeeper
            raise SessionSuspendedError(f"ZooKeeper at {where} cannot be reached within 10 s")
        return nullcontext(FakeOperator(self.cluster))

    def _fetch(self, address: str, access: HttpAccess) -> Mapping[str, Any]:  # noqa: ARG002 - as the port names it
        self.requested.append(address)
        if self.problem is not None:
            raise self.problem
        statuses = self.cluster.statuses
        if not statuses:
            raise SessionSuspendedError(f"http://{address}/status does not answer: refused")
        return statuses.pop(0) if len(statuses) > 1 else statuses[0]

    def _fetch_explanation(
        self,
        address: str,
        access: HttpAccess,  # noqa: ARG002 - as the port names it
        partition: TopicPartition,
    ) -> Mapping[str, Any]:
        self.requested.append(f"{address} {partition}")
        found = self.cluster.explanations.get(partition)
        if found is None:
            raise SessionSuspendedError(f"http://{address}/explain does not answer: refused")
        return found

    def _run_daemon(self, settings: Settings) -> int:
        self.ran.append(settings)
        return 0

    def _sleep(self, seconds: float) -> None:
        self.at += seconds
        if self.at > 10_000:
            raise AssertionError("the verb waits for ever")
        if not self.steps:
            return
        step = self.steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        step(self.cluster)
