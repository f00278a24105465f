"""
What ``stock`` changes: submission and cancellation.

Kafka's tool waits for the answer of the controller; here the answer is that the daemon has accepted
or refused. Without a leading daemon nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from controller.cli.cancel import is_selected
from controller.cli.context import CommandContext
from controller.cli.request_state import read_request
from controller.cli.submitting import await_daemon
from controller.core import model
from controller.core.requests.submissions import Cancellation, RequestOptions
from controller.errors import RequestTimeoutError
from controller.previews.plan_files import Plan
from controller.zk.operator_client import OperatorClient
from controller.znodes.submissions import submissions_of

ANSWER_S: Final = 60.0
"""The time that Kafka's tool waits for the controller."""
REASON: Final = "reassigner stock"


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
    named = replace(options, reason=REASON, requested_by=context.name_of_user(), keep_leaders=True)
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
        ReassignmentConflictError: an earlier one has not selected its partitions yet.
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
    written = operator.writes.cancel(wanted)

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
