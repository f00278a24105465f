"""
Evacuate brokers from leaderships, and move leaderships back.

The former order is durable before a request changes it: whatever ends in between, the way back is
known, and the same command continues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from controller.actions.submission import CheckedSubmission, PlanSubmission, check
from controller.core.model import BrokerId
from controller.core.pacing.controls import Evacuation, Evacuations
from controller.core.requests.submissions import RequestOptions
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.previews.entries import check_brokers
from controller.previews.evacuation_preview import BrokerLeaderships, LeaderMoves
from controller.previews.plan_files import PlanFile
from controller.units import ids

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

Begun = tuple[LeaderMoves, CheckedSubmission | None]
"""What is to move, and its request, which is to be written; None: nothing has to be requested."""


class LeadershipTaskKind(StrEnum):
    """The direction in which leaderships move."""

    EVACUATE = "evacuate"
    RETURN = "return"
    FORGET = "forget"
    """None moves: the present order of replicas stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipTask:
    """Brokers whose leaderships are to move, and why."""

    kind: LeadershipTaskKind
    brokers: Collection[BrokerId]
    about: Evacuation
    options: RequestOptions

    def begin(self, operator: OperatorClient, *, dry_run: bool = False) -> Begun:
        """Record the task; return what is to move. Raises as the functions below."""
        match self.kind:
            case LeadershipTaskKind.EVACUATE:
                return evacuate(operator, self.brokers, self.about, self.options, dry_run=dry_run)
            case LeadershipTaskKind.RETURN:
                return send_back(operator, self.brokers, self.options, dry_run=dry_run)
            case LeadershipTaskKind.FORGET:
                forget(operator, self.brokers, dry_run=dry_run)
                return LeaderMoves(), None
            case unknown:
                assert_never(unknown)


def evacuate(
    operator: OperatorClient,
    brokers: Collection[BrokerId],
    about: Evacuation,
    options: RequestOptions,
    *,
    dry_run: bool = False,
) -> Begun:
    """
    Record brokers as evacuated; return what moves the leaderships that they have.

    Raises:
        InvalidInputError: the cluster does not have a broker, or an option is not valid.
        ReassignmentConflictError: nothing may be submitted, or the evacuations are unreadable.

    """
    check_brokers(operator, brokers)
    leaderships = BrokerLeaderships(operator, brokers)

    def change(found: Evacuations) -> tuple[Evacuations, LeaderMoves]:
        moves = leaderships.moves_away(found, brokers)
        kept = {b: found.brokers[b] for b in found.away}
        evacuated = {**found.brokers, **dict.fromkeys(brokers, about), **kept}
        return Evacuations(evacuated, {**found.former, **moves.former}), moves

    task = _task_text(LeadershipTaskKind.EVACUATE, brokers)
    return _begin(operator, change, options, task, dry_run=dry_run)


def send_back(
    operator: OperatorClient,
    brokers: Collection[BrokerId],
    options: RequestOptions,
    *,
    dry_run: bool = False,
) -> Begun:
    """
    Record that leaderships return to brokers; return what moves them.

    A broker whose leaderships are back is evacuated no longer.

    Raises:
        InvalidInputError: a broker is not evacuated, or an option is not valid.
        ReassignmentConflictError: a broker is not live, nothing may be submitted, or the
            evacuations are unreadable.

    """
    leaderships = BrokerLeaderships(operator, brokers)

    def change(found: Evacuations) -> tuple[Evacuations, LeaderMoves]:
        _check_evacuated(found, brokers)
        dead = sorted(set(brokers) - leaderships.live)
        if dead:
            raise ReassignmentConflictError(
                f"broker {ids(dead)} is not live: start it first, or keep the present order with "
                "`reassigner leaders --forget`"
            )
        moves = leaderships.moves_back(found, brokers)
        left = {
            broker: replace(about, returning=about.returning or broker in brokers)
            for broker, about in found.brokers.items()
            if broker not in brokers or not moves.is_over
        }
        return Evacuations(left, moves.former), moves

    task = _task_text(LeadershipTaskKind.RETURN, brokers)
    return _begin(operator, change, options, task, dry_run=dry_run)


def forget(
    operator: OperatorClient, brokers: Iterable[BrokerId], *, dry_run: bool = False
) -> Evacuations:
    """
    Keep the present order of replicas for good; return the evacuations that are left.

    Raises:
        InvalidInputError: a broker is not evacuated.
        ReassignmentConflictError: the evacuations are unreadable.

    """
    named = set(brokers)

    def change(found: Evacuations) -> Evacuations:
        _check_evacuated(found, named)
        left = {b: about for b, about in found.brokers.items() if b not in named}
        former = {p: r for p, r in found.former.items() if not left.keys().isdisjoint(r)}
        return Evacuations(left, former)

    return operator.writes.edit_evacuations(change, dry_run=dry_run)


def _check_evacuated(found: Evacuations, brokers: Iterable[BrokerId]) -> None:
    missing = sorted(set(brokers) - found.brokers.keys())
    if missing:
        raise InvalidInputError(f"broker {ids(missing)} is not evacuated")


def _task_text(kind: LeadershipTaskKind, brokers: Iterable[BrokerId]) -> str:
    return " ".join(("leaders", *(f"--{kind} {broker}" for broker in sorted(brokers))))


def _begin(
    operator: OperatorClient,
    change: Callable[[Evacuations], tuple[Evacuations, LeaderMoves]],
    options: RequestOptions,
    task: str,
    *,
    dry_run: bool,
) -> Begun:
    """
    Record a change with its way back, after what it requests was found possible.

    The ``task`` is the reason of a request without another.
    """
    options = replace(options, elect_leaders=True, reason=options.reason or task)
    begun: list[Begun] = []

    def changed(found: Evacuations) -> Evacuations:
        after, moves = change(found)
        plan = PlanFile(entries=moves.orders, name="the new order")
        wanted = PlanSubmission(plan=plan, options=options)
        begun.append((moves, check(operator, wanted) if moves.orders else None))
        return after

    operator.writes.edit_evacuations(changed, dry_run=dry_run)
    return begun[-1]


def standing(operator: OperatorClient) -> Mapping[BrokerId, Evacuation]:
    """Return the evacuated brokers."""
    return operator.requests.evacuations().brokers
