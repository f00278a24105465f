"""
What ``stock`` changes: submission and cancellation.

Kafka's tool waits for the answer of the controller; here the answer is that the daemon has accepted
or refused. Without a leading daemon nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from controller.actions.submission import CheckedSubmission, PlanSubmission, check
from controller.cli.cancel import is_selected
from controller.cli.context import CommandContext
from controller.cli.request_state import read_request
from controller.cli.stock.files import StockPlan
from controller.cli.submitting import await_daemon, write_submission
from controller.core import model
from controller.core.requests.submissions import Cancellation, RequestOptions
from controller.errors import RequestTimeoutError
from controller.previews.plan_files import PlanFile
from controller.zk.operator_client import OperatorClient

ANSWER_S: Final = 60.0
"""The time that Kafka's tool waits for the controller."""
REASON: Final = "reassigner stock"


def check_plan(
    context: CommandContext,
    operator: OperatorClient,
    plan: StockPlan,
    *,
    throttle: int,
    log_dir_throttle: int,
) -> CheckedSubmission:
    """
    Check that a plan can be submitted as a request now; a negative throttle is none.

    Raises:
        ReassignmentConflictError: new reassignments are disabled.

    """
    options = RequestOptions(
        reason=REASON,
        requested_by=context.name_of_user(),
        throttle=throttle if throttle >= 0 else None,
        log_dirs_throttle=log_dir_throttle if plan.log_dirs and log_dir_throttle > 0 else None,
        keep_leaders=True,
    )
    file = PlanFile(entries=plan.entries, log_dirs=plan.named_dirs)
    return check(operator, PlanSubmission(plan=file, options=options))


def submit_plan(
    context: CommandContext, operator: OperatorClient, checked: CheckedSubmission
) -> Mapping[model.TopicPartition, str]:
    """
    Submit a plan as a request, and wait until it is accepted.

    Returns:
        The refused partitions, with the reason.

    Raises:
        RequestTimeoutError: the daemon has not accepted it in time; it stays in ZooKeeper.

    """
    written = write_submission(operator, checked)
    request, names = written.request, written.names
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
        partitions=frozenset(partitions), reason=REASON, requested_by=context.name_of_user()
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
