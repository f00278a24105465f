"""
Submit a plan: as a request, by the legacy route, or to the queue.

Only a plan that was checked here can be written. The daemon decides about its entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from controller.core.model import Route
from controller.core.requests.submissions import RequestOptions, legacy_request_id, queue_request_id
from controller.errors import ReassignmentConflictError
from controller.previews.cluster_queries import ClusterQueries
from controller.previews.entries import Entry, read_entries
from controller.previews.holds import since_words
from controller.previews.plan_changes import factor_lines
from controller.previews.plan_facts import DryRun, dry_run
from controller.previews.plan_files import Plan, PlanFile, check_basis
from controller.zk.request_writes import WrittenRequest, check_options
from controller.znodes.paths import KILL_SWITCH, LEGACY_PLAN, QUEUE

if TYPE_CHECKING:
    from controller.previews.proposal import Goal
    from controller.zk.operator_client import OperatorClient


class SubmissionKind(StrEnum):
    """The way in which a plan is submitted."""

    REQUEST = "request"
    LEGACY = "legacy"
    """As ``/admin/reassign_partitions``."""
    ADDITIONAL = "additional"
    """Added to ``/admin/reassign_partitions``."""
    QUEUE = "queue"

    @property
    def route(self) -> Route | None:
        """The route of the entries; those of the queue supersede requests of any route."""
        match self:
            case SubmissionKind.REQUEST:
                return Route.REQUEST
            case SubmissionKind.LEGACY | SubmissionKind.ADDITIONAL:
                return Route.LEGACY
            case SubmissionKind.QUEUE:
                return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSubmission:
    """A plan, with everything that its submission says of it."""

    plan: PlanFile
    way: SubmissionKind = SubmissionKind.REQUEST
    options: RequestOptions = field(default_factory=RequestOptions)
    """Of a request; other ways have none."""
    expected: Plan | None = None
    """The replicas of each partition for which the plan was approved."""
    may_change_factors: bool = False
    """Whether the plan may change replication factors, as KIP-860 names the option."""


def submission_of(plan: PlanFile, goal: Goal, options: RequestOptions) -> PlanSubmission:
    """
    Return the submission of a plan that was made for a goal, which is its reason without another.

    One whose goal is a factor may change factors.
    """
    return PlanSubmission(
        plan=plan,
        options=replace(options, reason=options.reason or goal.text),
        may_change_factors=goal.replication_factor is not None,
    )


@dataclass(frozen=True, slots=True)
class CheckedSubmission:
    """A submission that ``check`` found possible."""

    wanted: PlanSubmission
    entries: Sequence[Entry]
    """Its entries, with what ZooKeeper has of their partitions."""

    def dry_run(self, operator: OperatorClient, queries: ClusterQueries) -> DryRun:
        """Find what it would do."""
        wanted = self.wanted
        return dry_run(
            operator, self.entries, wanted.way.route, wanted.options, queries, wanted.plan.log_dirs
        )

    def write(self, operator: OperatorClient) -> WrittenRequest:
        """
        Write it; an error after which something may have been written has a note.

        Raises:
            InvalidInputError: the plan is too large for one znode, if the way permits no more.
            ReassignmentConflictError: others were faster.

        """
        wanted, writes = self.wanted, operator.writes
        entries, log_dirs = wanted.plan.entries, wanted.plan.log_dirs
        match wanted.way:
            case SubmissionKind.REQUEST:
                return writes.submit_plan(
                    entries, wanted.options, expected=wanted.expected, log_dirs=log_dirs
                )
            case SubmissionKind.LEGACY:
                return WrittenRequest(legacy_request_id(writes.create_plan(entries, log_dirs)))
            case SubmissionKind.ADDITIONAL:
                return WrittenRequest(legacy_request_id(writes.extend_plan(entries, log_dirs)))
            case SubmissionKind.QUEUE:
                return WrittenRequest(queue_request_id(writes.create_queue(entries, log_dirs)))
            case unknown:
                assert_never(unknown)


def check_quiesced(operator: OperatorClient) -> None:
    """
    Check that the reassigner accepts new work.

    Raises:
        ReassignmentConflictError: it is quiesced.

    """
    quiesce = operator.requests.controls().pauses.quiesce
    if quiesce is not None:
        raise ReassignmentConflictError(
            f"the reassigner is quiesced since {since_words(quiesce)} (`reassigner resume` ends "
            f"that)"
        )


def check(operator: OperatorClient, wanted: PlanSubmission) -> CheckedSubmission:
    """
    Check that a plan can be submitted now.

    Raises:
        InvalidInputError: an option is not valid, or the plan was made for another cluster.
        ReassignmentConflictError: the reassigner is quiesced, new reassignments are disabled, the
            partitions have changed since the plan was made, a plan or a queue is in progress, or
            the plan changes replication factors and may not.

    """
    check_options(wanted.options)
    check_basis(operator, wanted.plan)
    check_quiesced(operator)
    switch = operator.requests.kill_switch()
    if switch is not None:
        raise ReassignmentConflictError(
            f"new reassignments are disabled since {since_words(switch)} ({KILL_SWITCH} exists; "
            f"`reassigner enable` deletes it)"
        )
    if wanted.way is SubmissionKind.LEGACY and operator.requests.plan() is not None:
        raise ReassignmentConflictError(
            f"{LEGACY_PLAN} exists already: a plan is in progress. Wait for its end, or add to "
            "it with --additional"
        )
    if wanted.way is SubmissionKind.QUEUE and operator.requests.queue() is not None:
        raise ReassignmentConflictError(
            f"{QUEUE} exists already: wait until its entries have started, or see "
            "`reassigner queue list`"
        )
    entries = read_entries(operator, wanted.plan.entries)
    factors = () if wanted.may_change_factors else tuple(factor_lines(entries))
    if factors:
        raise ReassignmentConflictError(
            "\n".join(
                (
                    "the plan changes replication factors, which was not requested:",
                    *factors,
                    "If it is intended, use --allow-replication-factor-change",
                )
            )
        )
    return CheckedSubmission(wanted, entries)
