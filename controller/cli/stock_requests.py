"""
What the stock verb has the daemon do: take a plan, call partitions off. It waits for no end.

Kafka's own tool waits until the controller has answered; here that is until the daemon has accepted
or refused. Without a daemon nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from controller.cli.await_daemon import await_daemon
from controller.cli.cancel import is_chosen, joined
from controller.cli.context import CommandContext
from controller.cli.plan_files import Plan
from controller.cli.ports import InspectorPort
from controller.cli.request_standing import stand_of
from controller.cli.submissions import submissions_of
from controller.core.model import (
    OutcomeKind,
    ReassignmentSpec,
    RequestId,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.submissions import Cancellation, RequestOptions
from controller.errors import RequestTimeoutError, SessionSuspendedError

ANSWER_S: Final = 60.0
"""As long as Kafka's tool waits for the controller."""
REASON: Final = "reassigner stock"


def check_led(inspector: InspectorPort, *, dry_run: bool = False) -> None:
    """
    See whether anybody would carry anything out.

    Raises:
        SessionSuspendedError: no daemon leads.

    """
    if not dry_run and inspector.leader_address() is None:
        raise SessionSuspendedError("no reassigner leads: start one with `reassigner run`")


def submit_plan(
    around: CommandContext, inspector: InspectorPort, plan: Plan, throttle: int | None
) -> Mapping[TopicPartition, str]:
    """
    Submit a plan as a request and wait until it is judged; return what was refused, and why.

    Raises:
        RequestTimeoutError: nobody judged it in time; it stands in ZooKeeper all the same.

    """
    options = RequestOptions(reason=REASON, requested_by=around.name_of_user(), throttle=throttle)
    own = around.new_request_id()
    parts = submissions_of(plan, options, own)
    names = [inspector.submit(part) for part in parts]
    request = RequestId(names[0]) if len(parts) == 1 else own
    if not await_daemon(
        around,
        inspector,
        lambda: not set(names) & set(inspector.submission_names()),
        timeout_s=ANSWER_S,
    ):
        raise RequestTimeoutError(
            f"the plan was written as {request}, but no reassigner has accepted it yet; "
            f"`reassigner cancel {request}` calls it off"
        )
    standing = stand_of(inspector, request)
    return {r.partition: r.detail for r in standing.refused if r.partition is not None}


def call_off(
    around: CommandContext, inspector: InspectorPort, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, str]:
    """
    Cancel partitions and wait until they are on their way back; return what was not, and why.

    Raises:
        ReassignmentConflictError: a cancellation of another scope is being carried out.
        RequestTimeoutError: nobody took it up in time; it stands in ZooKeeper all the same.

    """
    wanted = Cancellation(
        ZkVersion(0),
        Zxid(0),
        0,
        partitions=frozenset(partitions),
        reason=REASON,
        requested_by=around.name_of_user(),
    )
    written = inspector.cancel(lambda found: joined(found, wanted))

    def is_taken_up() -> bool:
        if is_chosen(inspector, written):
            return True
        specs = inspector.read_specs(partitions)
        return all(
            isinstance(g, ReassignmentSpec) and g.cancelled_by is not None for g in specs.values()
        )

    if not await_daemon(around, inspector, is_taken_up, timeout_s=ANSWER_S):
        raise RequestTimeoutError(
            f"the cancellation was written as {written.request}, but not taken up yet"
        )
    history = inspector.read_history([written.request]).get(written.request)
    endings = () if history is None else history.endings
    return {
        e.partition: e.detail
        for e in endings
        if e.fate is OutcomeKind.SKIPPED and e.partition in partitions
    }
