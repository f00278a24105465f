"""
``pause`` and ``resume``, ``disable`` and ``enable``: holding work up, and not taking any.

Both are durable znodes that the daemon watches; what is in flight goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from controller.cli.exits import Exit
from controller.cli.pause_text import pause_lines
from controller.cli.ports import OperatorPort
from controller.cli.report_text import say, say_json, tell
from controller.cli.units import show_time
from controller.core.controls import Pause, Pauses
from controller.core.model import BrokerId, RequestId
from controller.core.requests.acceptance import legacy_request_id
from controller.core.requests.queue import queue_request_id
from controller.errors import InvalidInputError
from controller.znodes.kill_switches import KillSwitch

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is meant; nothing in particular is everything."""

    requests: Sequence[RequestId] = ()
    brokers: Sequence[BrokerId] = ()

    @property
    def is_everything(self) -> bool:
        """Whether nothing is meant in particular."""
        return not (self.requests or self.brokers)


def pause_work(
    operator: OperatorPort, meant: Selection, pause: Pause, *, dry_run: bool, as_json: bool
) -> Exit:
    """
    Let no new step begin.

    Raises:
        PlanInvalidError: a request is named that has ended, or that nothing is known of.

    """
    check_requests(operator, meant.requests)
    absent = sorted(set(meant.brokers) - operator.live_brokers())
    if absent:
        tell(f"Note: broker {', '.join(map(str, absent))} is not live.")

    def change(found: Pauses) -> Pauses:
        if meant.is_everything:
            return replace(found, everything=found.everything or pause)
        return replace(
            found,
            requests={**dict.fromkeys(meant.requests, pause), **found.requests},
            brokers={**dict.fromkeys(meant.brokers, pause), **found.brokers},
        )

    return _edit_pauses(operator, change, dry_run=dry_run, as_json=as_json)


def resume_work(
    operator: OperatorPort, meant: Selection, *, whole: bool, dry_run: bool, as_json: bool
) -> Exit:
    """Let steps begin again; ``whole`` lifts every pause there is."""

    def change(found: Pauses) -> Pauses:
        if whole:
            return Pauses()
        if meant.is_everything:
            return replace(found, everything=None)
        return replace(
            found,
            requests=_without(found.requests, meant.requests),
            brokers=_without(found.brokers, meant.brokers),
        )

    return _edit_pauses(operator, change, dry_run=dry_run, as_json=as_json)


def _edit_pauses(
    operator: OperatorPort, change: Callable[[Pauses], Pauses], *, dry_run: bool, as_json: bool
) -> Exit:
    pauses = change(operator.read_controls().pauses) if dry_run else operator.edit_pauses(change)
    lines = pause_lines(pauses)
    if as_json:
        say_json({"dry_run": dry_run, "paused": _pauses_document(pauses)})
        return Exit.DONE
    for line in lines or ["nothing is paused"]:
        say(line)
    if dry_run:
        say("Nothing was written.")
    return Exit.DONE


def _without(found: Mapping[_Key, Pause], names: Iterable[_Key]) -> dict[_Key, Pause]:
    return {key: pause for key, pause in found.items() if key not in set(names)}


def _pauses_document(pauses: Pauses) -> dict[str, object]:
    def about(pause: Pause) -> dict[str, object]:
        return {"reason": pause.reason, "by": pause.by, "since_ms": pause.since_ms}

    return {
        "everything": None if pauses.everything is None else about(pauses.everything),
        "requests": {name: about(p) for name, p in pauses.requests.items()},
        "brokers": {str(broker): about(p) for broker, p in pauses.brokers.items()},
    }


def check_requests(operator: OperatorPort, requests: Iterable[RequestId]) -> None:
    """
    See whether requests are known and open.

    Raises:
        PlanInvalidError: one is not.

    """
    missing = set(requests)
    if not missing:
        return
    known = operator.request_ids()
    ended = sorted(name for name in missing if known.get(name))
    if ended:
        raise InvalidInputError(f"request {', '.join(ended)} has ended")
    missing -= known.keys()
    submitted = operator.read_submissions(operator.submission_names()).values()
    missing -= {s.request for s in submitted if s is not None}
    queue, plan = operator.read_queue(), operator.read_plan()
    missing -= set() if queue is None else {queue_request_id(queue.czxid)}
    missing -= set() if plan is None else {legacy_request_id(plan.czxid)}
    if missing:
        raise InvalidInputError(
            f"nothing is known of request {', '.join(sorted(missing))}; see `reassigner list`"
        )


# --- the kill switch -----------------------------------------------------------------------------


def disable_work(
    operator: OperatorPort, switch: KillSwitch, *, dry_run: bool = False, as_json: bool
) -> Exit:
    """Refuse whatever is submitted from now on."""
    before = operator.read_kill_switch() if dry_run else operator.disable(switch)
    stands = before or switch
    if as_json:
        found = {"disabled": True, "was_disabled": before is not None, **_switch(stands)}
        say_json({"dry_run": dry_run, **found})
        return Exit.DONE
    if before is not None:
        say(f"Disabled already, since {_since(before)}.")
    else:
        say("Disabled: new reassignments are refused from now on; what has begun goes on.")
    if dry_run:
        say("Nothing was written.")
    return Exit.DONE


def enable_work(operator: OperatorPort, *, dry_run: bool = False, as_json: bool) -> Exit:
    """Take new work again."""
    was_disabled = operator.read_kill_switch() is not None if dry_run else operator.enable()
    if as_json:
        say_json({"dry_run": dry_run, "disabled": False, "was_disabled": was_disabled})
        return Exit.DONE
    say("Enabled: new reassignments are taken." if was_disabled else "It was not disabled.")
    if dry_run:
        say("Nothing was written.")
    return Exit.DONE


def _switch(switch: KillSwitch) -> dict[str, object]:
    return {"reason": switch.reason, "by": switch.by, "since_ms": switch.since_ms}


def _since(switch: KillSwitch) -> str:
    by = f" by {switch.by}" if switch.by else ""
    why = f": {switch.reason}" if switch.reason else ""
    return f"{show_time(switch.since_ms)}{by}{why}"
