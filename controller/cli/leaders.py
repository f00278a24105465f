"""
``leaders``: move the leaderships of brokers elsewhere, and back.

A request changes the order of replicas and elects the first one; the daemon carries it out with
either engine. What to request follows from the cluster each time, so a run after an interruption
continues, and one that waits follows topics that are created meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from controller.actions import evacuating
from controller.cli import options, submitting
from controller.cli.context import CommandContext
from controller.cli.options import command, flag, option
from controller.cli.output import Exit, print_note
from controller.cli.progress_display import display_of
from controller.cli.request_state import problem_lines, read_request
from controller.cli.status_text import status_about
from controller.core.model import (
    BrokerId,
    OutcomeKind,
    Replicas,
    RequestId,
    TopicPartition,
    count_text,
)
from controller.core.pacing.controls import Evacuation, Evacuations
from controller.core.requests.submissions import RequestOptions
from controller.errors import InvalidInputError
from controller.previews.evacuation_preview import (
    BrokerLeaderships,
    LeaderMoves,
    forecast_leaders,
    left_lines,
)
from controller.previews.holds import by_reason, since_words
from controller.units import ids, names_text

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient
    from controller.zk.request_writes import WrittenRequest

AGAIN_S: Final = 2.0
"""Between two looks at the leaderships of the cluster."""
PATIENCE_S: Final = 20.0
"""After so long without the end of a request, a replica that is to lead may have died."""
NONE: Final = "no broker is evacuated"

Led = Mapping[BrokerId, Collection[TopicPartition]]
"""The partitions that each broker leads."""


@command("dry_run", "timeout", "as_json")
def leaders(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    *,
    evacuate: list[int] | None = option(
        "BROKER", "Move the leaderships of this broker elsewhere; may be repeated. Default: none."
    ),
    send_back: list[int] | None = option(
        "BROKER",
        "Move leaderships back to this broker; may be repeated. Default: none.",
        "--return",
    ),
    forget: list[int] | None = option(
        "BROKER", "Keep the present order of replicas for good; may be repeated. Default: none."
    ),
    window: str | None = options.WINDOW,
    reason: str = options.REASON,
    requested_by: str | None = options.BY,
    wait: bool = flag("--wait", "Show progress and wait for the end, without a time limit."),
) -> Exit:
    """
    Move leaderships off brokers for maintenance, and back, without copying data.

    Example: reassigner leaders --evacuate 5 --reason "kernel update" --zookeeper zk1:2181/kafka

    The order of replicas is changed, so that nothing moves the leaderships back before
    `reassigner leaders --return 5` restores it. Without a broker, the evacuated ones are listed.
    The last line says whether the broker can be restarted. Exit code: 0 it can (with --return: its
    leaderships are back), 1 error, 2 leaderships are left, or another replica is not in sync, 3
    refused.
    """
    tasks = {"--evacuate": evacuate, "--return": send_back, "--forget": forget}
    chosen = {name: given for name, given in tasks.items() if given}
    if len(chosen) > 1:
        raise InvalidInputError(f"{' and '.join(chosen)} are different tasks: give one of them")
    brokers = sorted({BrokerId(b) for given in chosen.values() for b in given})
    about = Evacuation(reason, context.requested_by(requested_by), context.wall_ms())
    wanted = RequestOptions(
        reason=reason,
        requested_by=about.by,
        window=options.parse(options.parse_window, "--window", window),
    )
    with context.connected() as operator:
        if not chosen:
            return _list(context, operator)
        if forget:
            return _forget(context, operator, brokers)
        kind = Evacuating if evacuate else Returning
        run = kind(context=context, operator=operator, brokers=brokers, about=about, wanted=wanted)
        return run.run(wait=wait)


@dataclass(kw_only=True)
class LeadersRun(ABC):
    """One run of the command that moves leaderships."""

    context: CommandContext
    operator: OperatorClient
    brokers: list[BrokerId]
    about: Evacuation
    wanted: RequestOptions
    requests: list[RequestId] = field(default_factory=list)
    changed: dict[TopicPartition, str] = field(default_factory=dict)

    def run(self, *, wait: bool) -> Exit:
        """Request what has to move, and wait for it."""
        if self.context.dry_run:
            return self._preview()
        for line in self._holds():
            print_note(f"Note: {line}")
        try:
            self._move(None if wait else self.context.now() + self.context.timeout)
        except KeyboardInterrupt:
            print_note("Interrupted; what was requested continues.")
            return self._report(is_interrupted=True)
        self.context.await_shown(self.operator)
        return self._report()

    def _move(self, until: float | None) -> None:
        """Request what has to move until nothing new is found, or the time is over."""
        tried: dict[TopicPartition, Replicas] = {}
        while True:
            moves, checked = self.begin(dry_run=False)
            self.changed.update(moves.changed)
            fresh = [p for p, order in moves.orders.items() if tried.get(p) != order]
            if checked is not None and fresh:
                tried.update(moves.orders)
                self._follow(submitting.write_submission(self.operator, checked), until)
            elif not moves.under_way:
                return
            elif until is None or self.context.now() < until:
                self.context.sleep(AGAIN_S)
            if until is not None and self.context.now() >= until:
                return

    def _follow(self, written: WrittenRequest, until: float | None) -> None:
        """Wait until a request ends, but not for ever: what is to move may be another by then."""
        context, operator, names = self.context, self.operator, set(written.names)
        self.requests.append(written.request)
        if not submitting.await_daemon(
            context, operator, lambda: not names & set(operator.requests.open())
        ):
            why = submitting.why_not_taken_up(operator, context.timeout)
            print_note(f"Written as {written.request}, but not accepted yet ({why})")
            if until is not None:
                return
        patience = context.now() + PATIENCE_S
        until = patience if until is None else min(until, patience)
        with display_of(context) as show:
            while operator.outcomes.outcome(written.request) is None and context.now() < until:
                status = status_about(context.status_of_leader(operator), written.request)
                show(f"leaderships move as {written.request}", 0, 0, status)
                context.sleep(submitting.FOLLOW_S)

    def _problems(self) -> list[str]:
        """Return what became of entries that were refused or cancelled."""
        lines: list[str] = []
        for request in self.requests:
            state = read_request(self.operator, request)
            endings = (e for e in state.history.endings if e.fate is not OutcomeKind.SUPERSEDED)
            history = replace(state.history, endings=tuple(endings))
            lines += problem_lines(replace(state, history=history))
        return lines

    def _holds(self) -> Iterator[str]:
        """Describe what keeps leaderships where they are although nothing is wrong."""
        return submitting.hold_lines(
            self.context, self.operator, self.wanted.window, names_clients=False
        )

    def _preview(self) -> Exit:
        moves, _ = self.begin(dry_run=True)
        found = forecast_leaders(self.operator, self.brokers, moves.orders)
        document = {
            "orders": {str(p): order for p, order in moves.orders.items()},
            "leaders": {
                str(broker): {"now": now, "then": then}
                for broker, (now, then) in found.leaders.items()
            },
            **_left_document(moves),
        }
        lines = (*self._holds(), *found.lines(), *left_lines(moves))
        self.context.print_change(document, lines or ["nothing has to move"])
        return Exit.DONE

    def _report(self, *, is_interrupted: bool = False) -> Exit:
        """Print what is left, and the answer to the operator's question."""
        leaderships = BrokerLeaderships(self.operator, self.brokers)
        moves = self.moves_left(leaderships, self.operator.requests.evacuations())
        problems = self._problems()
        led = {broker: leaderships.led(broker) for broker in self.brokers}
        is_over = moves.is_over and not is_interrupted and not problems
        is_done = is_over and self.is_done(led)
        is_safe = is_done and not any(self.waits_for(leaderships))
        code = Exit.DONE if is_safe else Exit.REFUSED if problems else Exit.IN_PROGRESS

        def document() -> dict[str, Any]:
            return {
                "brokers": [
                    {
                        "broker": broker,
                        "leads": len(partitions),
                        "under_replicated": list(map(str, leaderships.lacking(broker))),
                    }
                    for broker, partitions in led.items()
                ],
                "requests": self.requests,
                "problems": problems,
                "changed": {str(p): why for p, why in self.changed.items()},
                **_left_document(moves),
                "result": code.name.lower(),
            }

        changed = by_reason(self.changed).items()
        notes = (f"{names_text(some)} left as found: {why}" for why, some in changed)
        answer = self.answer(led, leaderships) if is_done else self.left_text(led, moves)
        self.context.print_result(document, (*problems, *notes, *left_lines(moves), *answer))
        return code

    # --- what depends on the direction -----------------------------------------------------------

    @abstractmethod
    def begin(self, *, dry_run: bool) -> evacuating.Begun:
        """Record what is to move, and return it."""

    @abstractmethod
    def moves_left(self, leaderships: BrokerLeaderships, found: Evacuations) -> LeaderMoves:
        """Return what is left to be moved."""

    @abstractmethod
    def is_done(self, led: Led) -> bool:
        """Return whether the brokers lead what they are to lead."""

    def waits_for(self, leaderships: BrokerLeaderships) -> Iterable[TopicPartition]:
        """Return the partitions for which a restart should wait; none where none was wanted."""
        del leaderships
        return ()

    @abstractmethod
    def answer(self, led: Led, leaderships: BrokerLeaderships) -> Iterable[str]:
        """Say that it is done."""

    @abstractmethod
    def left_text(self, led: Led, moves: LeaderMoves) -> Iterable[str]:
        """Say how much is left."""


class Evacuating(LeadersRun):
    """BrokerLeaderships leave brokers."""

    def begin(self, *, dry_run: bool) -> evacuating.Begun:
        """Record the brokers as evacuated, with the former order."""
        return evacuating.evacuate(
            self.operator, self.brokers, self.about, self.wanted, dry_run=dry_run
        )

    def moves_left(self, leaderships: BrokerLeaderships, found: Evacuations) -> LeaderMoves:
        """Return what the brokers still lead, or would."""
        return leaderships.moves_away(found, self.brokers)

    def is_done(self, led: Led) -> bool:
        """Return whether they lead nothing."""
        return not any(led.values())

    def waits_for(self, leaderships: BrokerLeaderships) -> Iterable[TopicPartition]:
        """Return the partitions of which another replica is not in sync."""
        return (p for broker in self.brokers for p in leaderships.lacking(broker))

    def answer(self, led: Led, leaderships: BrokerLeaderships) -> Iterable[str]:
        """Say whether the brokers can be restarted."""
        return map(leaderships.restart_text, led)

    def left_text(self, led: Led, moves: LeaderMoves) -> Iterable[str]:
        """Say what the brokers still lead."""
        del moves
        for broker, partitions in led.items():
            if partitions:
                yield f"broker {broker} still leads {count_text(len(partitions), 'partition')}"
            else:
                yield f"broker {broker} leads no partition now, but would again: see above"


class Returning(LeadersRun):
    """BrokerLeaderships return to brokers."""

    def begin(self, *, dry_run: bool) -> evacuating.Begun:
        """Record that they return."""
        operator, found = self.operator, evacuating.standing(self.operator)
        if self.requests and not found.keys() & set(self.brokers):
            return LeaderMoves(), None
        return evacuating.send_back(operator, self.brokers, self.wanted, dry_run=dry_run)

    def moves_left(self, leaderships: BrokerLeaderships, found: Evacuations) -> LeaderMoves:
        """Return what is not back yet."""
        return leaderships.moves_back(found, self.brokers)

    def is_done(self, led: Led) -> bool:
        """Return whether they are evacuated no longer."""
        del led
        return not evacuating.standing(self.operator).keys() & set(self.brokers)

    def answer(self, led: Led, leaderships: BrokerLeaderships) -> Iterable[str]:
        """Say that the leaderships are back."""
        del leaderships
        for broker, partitions in led.items():
            count = count_text(len(partitions), "partition")
            yield f"the leaderships of broker {broker} are back: it leads {count}"

    def left_text(self, led: Led, moves: LeaderMoves) -> Iterable[str]:
        """Say what is not back yet."""
        count = len(moves.orders) + len(moves.under_way) + len(moves.left)
        words = count_text(count, "leadership")
        yield f"{words} not back at broker {ids(sorted(led))} yet; run the command again"


def _left_document(moves: LeaderMoves) -> dict[str, Any]:
    return {
        "left": {str(p): why for p, why in moves.left.items()},
        "under_way": list(map(str, moves.under_way)),
    }


def _forget(context: CommandContext, operator: OperatorClient, brokers: list[BrokerId]) -> Exit:
    left = evacuating.forget(operator, brokers, dry_run=context.dry_run)
    context.await_shown(operator)
    line = f"broker {ids(brokers)} is no longer evacuated; the present order of replicas stays"
    if context.dry_run:
        line = (
            f"broker {ids(brokers)} would no longer be evacuated; the present order of replicas "
            "would stay"
        )
    context.print_change({"forgotten": brokers, "evacuated": sorted(left.brokers)}, [line])
    return Exit.DONE


def _list(context: CommandContext, operator: OperatorClient) -> Exit:
    """List the evacuated brokers, and what they still lead."""
    found = operator.requests.evacuations()
    leaderships = BrokerLeaderships(operator, found.brokers)
    rows = list(_rows(found, leaderships))

    def document() -> dict[str, Any]:
        return {
            "evacuated": [
                {"broker": b, **asdict(about), "leads": len(led), "is_over": moves.is_over}
                for b, about, led, moves in rows
            ]
        }

    lines = (
        line
        for broker, about, _, moves in rows
        for line in (*_row_lines(broker, about, moves), leaderships.verdict(broker, found))
    )
    context.print_result(document, lines if rows else [NONE])
    is_over = all(
        m.is_over and (about.returning or not (led or leaderships.lacking(broker)))
        for broker, about, led, m in rows
    )
    return Exit.DONE if is_over else Exit.IN_PROGRESS


def _rows(
    found: Evacuations, leaderships: BrokerLeaderships
) -> Iterator[tuple[BrokerId, Evacuation, list[TopicPartition], LeaderMoves]]:
    for broker, about in sorted(found.brokers.items()):
        back = leaderships.moves_back if about.returning else leaderships.moves_away
        yield broker, about, leaderships.led(broker), back(found, [broker])


def _row_lines(broker: BrokerId, about: Evacuation, moves: LeaderMoves) -> Iterator[str]:
    what = "is getting its leaderships back" if about.returning else "is evacuated"
    yield f"broker {broker} {what} since {since_words(about)}"
    yield from left_lines(moves)
    verb = "return" if about.returning else "evacuate"
    if moves.orders:
        yield (
            f"{names_text(moves.orders)}: not requested yet; run `reassigner leaders --{verb} "
            f"{broker}`"
        )
