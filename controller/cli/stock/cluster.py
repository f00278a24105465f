"""
The cluster as ``stock`` sees and changes it: active reassignments, submission, cancellation.

Kafka's tool asks the controller for active reassignments. Here they come from topic znodes, and
from what the daemon has accepted or has yet to accept. A reassignment of the daemon is shown whole,
not as the step in flight. Kafka's tool waits for the answer of the controller; here the answer is
that the daemon has accepted or refused. Without a leading daemon nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from controller.cli.cancel import is_selected
from controller.cli.context import CommandContext
from controller.cli.plan_files import Plan
from controller.cli.request_state import read_request
from controller.cli.submitting import await_daemon
from controller.core import model
from controller.core.submissions import Cancellation, RequestOptions
from controller.errors import RequestTimeoutError
from controller.zk.operator_client import OperatorClient
from controller.znodes.cancellations import joined
from controller.znodes.submissions import submissions_of

ANSWER_S: Final = 60.0
"""The time that Kafka's tool waits for the controller."""
REASON: Final = "reassigner stock"


@dataclass(frozen=True, slots=True)
class ActiveReassignment:
    """One active reassignment, as KIP-455 describes it."""

    replicas: model.Replicas
    adding: model.Replicas
    removing: model.Replicas


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Topics and active reassignments."""

    topics: Mapping[str, model.TopicAssignment]
    active: Mapping[model.TopicPartition, ActiveReassignment]

    def assignment(self, partition: model.TopicPartition) -> model.PartitionAssignment | None:
        """Return the assignment of a partition, None if it does not exist."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)


def read_cluster(operator: OperatorClient) -> ClusterState:
    """Read topics and active reassignments; the order of reads is as in ``request_state``."""
    targets: dict[model.TopicPartition, model.Replicas] = {}
    plan = operator.requests.plan()
    for found in (plan, *operator.requests.open_submissions()):
        targets |= {} if found is None else found.entries
    specs = operator.partitions.specs(operator.partitions.reassigned())
    targets |= {
        p: spec.target for p, spec in specs.items() if isinstance(spec, model.ReassignmentSpec)
    }
    topics = operator.survey_topics()
    return ClusterState(topics, dict(_active(topics, targets)))


def _active(
    topics: Mapping[str, model.TopicAssignment],
    targets: Mapping[model.TopicPartition, model.Replicas],
) -> Iterator[tuple[model.TopicPartition, ActiveReassignment]]:
    for topic, assignment in topics.items():
        for number, found in assignment.partitions.items():
            partition = model.TopicPartition(topic, number)
            target = targets.get(partition)
            if target is not None:
                yield partition, _whole(target, found)
            elif found.is_reassigning:
                yield (
                    partition,
                    ActiveReassignment(
                        found.replicas, found.adding_replicas, found.removing_replicas
                    ),
                )


def _whole(target: model.Replicas, now: model.PartitionAssignment) -> ActiveReassignment:
    """Return the reassignment as Kafka would carry it out, in a single step."""
    removing = tuple(r for r in now.replicas if r not in target)
    return ActiveReassignment(
        replicas=target + removing,
        adding=tuple(r for r in target if r not in now.origin_replicas),
        removing=removing,
    )


def submit_plan(
    context: CommandContext,
    operator: OperatorClient,
    plan: Plan,
    log_dirs: model.NamedDirs,
    options: RequestOptions,
) -> Mapping[model.TopicPartition, str]:
    """
    Submit a plan as a request, and wait until it is accepted.

    Returns:
        The refused partitions, with the reason.

    Raises:
        RequestTimeoutError: the daemon has not accepted it in time; it stays in ZooKeeper.

    """
    named = replace(options, reason=REASON, requested_by=context.name_of_user())
    own = context.new_request_id()
    parts = submissions_of(plan, named, own, log_dirs=log_dirs)
    names = [operator.writes.submit(part) for part in parts]
    request = model.RequestId(names[0]) if len(parts) == 1 else own
    if not await_daemon(
        context,
        operator,
        lambda: not set(names) & set(operator.requests.open()),
        timeout_s=ANSWER_S,
    ):
        raise RequestTimeoutError(
            f"the plan was written as {request}, but no reassigner has accepted it yet; "
            f"`reassigner cancel {request}` cancels it"
        )
    refused = read_request(operator, request).refused
    return {r.partition: r.detail for r in refused if r.partition is not None}


def cancel_partitions(
    context: CommandContext, operator: OperatorClient, partitions: Collection[model.TopicPartition]
) -> Mapping[model.TopicPartition, str]:
    """
    Cancel partitions, and wait until they roll back.

    Returns:
        The partitions that could not be cancelled, with the reason.

    Raises:
        ReassignmentConflictError: a cancellation of another scope is in progress.
        RequestTimeoutError: the daemon has not taken it up in time; it stays in ZooKeeper.

    """
    wanted = Cancellation(
        model.ZkVersion(0),
        model.Zxid(0),
        0,
        partitions=frozenset(partitions),
        reason=REASON,
        requested_by=context.name_of_user(),
    )
    written = operator.writes.cancel(lambda found: joined(found, wanted))

    def is_taken_up() -> bool:
        if is_selected(operator, written):
            return True
        specs = operator.partitions.specs(partitions)
        return all(
            isinstance(s, model.ReassignmentSpec) and s.cancelled_by is not None
            for s in specs.values()
        )

    if not await_daemon(context, operator, is_taken_up, timeout_s=ANSWER_S):
        raise RequestTimeoutError(
            f"the cancellation was written as {written.request}, but not taken up yet"
        )
    history = operator.outcomes.history_of(written.request)
    return {
        o.partition: o.detail
        for o in (() if history is None else history.endings)
        if o.fate is model.OutcomeKind.SKIPPED and o.partition in partitions
    }
