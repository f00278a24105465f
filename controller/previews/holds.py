"""What operators and windows hold back, in words."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from controller.core.model import TopicPartition, count_text, request_text
from controller.core.pacing import controls
from controller.core.pacing.controls import Controls, Drain, Evacuation, Pause, Pauses, Quiesce
from controller.core.requests.submissions import Window
from controller.units import show_duration, show_time
from controller.znodes.cancellations import KillSwitch

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

Reason = TypeVar("Reason", bound=Hashable)


def by_reason(waits: Mapping[TopicPartition, Reason]) -> dict[Reason, list[TopicPartition]]:
    """Return partitions by the reason for which they stay where they are."""
    found: dict[Reason, list[TopicPartition]] = {}
    for partition, why in waits.items():
        found.setdefault(why, []).append(partition)
    return found


def since_words(hold: Pause | Quiesce | KillSwitch | Drain | Evacuation) -> str:
    """Return since when, by which user and why a control is set."""
    by = f" by {hold.by}" if hold.by else ""
    why = f": {hold.reason}" if hold.reason else ""
    return f"{show_time(hold.since_ms)}{by}{why}"


def drain_words(about: Drain, left: int) -> str:
    """Return since when, by which user and why a broker is drained; as long as it is not empty."""
    return f"{'is being' if left else 'is'} drained since {since_words(about)}"


def left_words(replicas: int, reassignments: int, *, is_live: bool) -> str:
    """
    Return what a drained broker has left, and what follows once that is nothing.

    ``reassignments`` involve it, though it does not have a replica of their partitions.
    """
    if not (replicas or reassignments):
        return f"empty: it {'can be shut down' if is_live else 'need not return'}"
    left = f"{count_text(replicas, 'replica') if replicas else 'no replica'} left"
    involve = f"{count_text(reassignments, 'reassignment')} still involve"
    return f"{left}, {involve}{'s' if reassignments == 1 else ''} it" if reassignments else left


def evacuation_words(about: Evacuation, verdict: object = None) -> str:
    """Return since when, by which user and why leaderships are elsewhere, and the verdict on it."""
    what = "leaderships return, evacuated" if about.returning else "leaderships evacuated"
    return f"{what} since {since_words(about)}" + (f"; {verdict}" if verdict else "")


def closed_windows(controls: Controls, own: Window | None, unix_s: float) -> Iterator[str]:
    """Describe the closed windows of a request and of all requests, with when they open."""
    for window in dict.fromkeys((own, controls.limits.window)):
        if window is not None and not window.is_open(unix_s):
            left = show_duration(window.opens_in_s(unix_s))
            yield f"{window.closed_text(unix_s)}, in {left}"


def pause_lines(
    pauses: Pauses, status: Mapping[str, Any] | None = None, would: Pause | None = None
) -> list[str]:
    """
    Describe what is paused, and the quiesce; in a preview, ``would`` is the pause to begin.

    With the ``status`` of the daemon, also how many steps of it are still in flight.
    """
    status = {} if status is None else status
    counts = {r["id"]: r["partitions"] for r in status.get("requests", ())}
    found = [("everything", pauses.everything, status.get("partitions", {}))]
    found += [(request_text(n), p, counts.get(n, {})) for n, p in pauses.requests.items()]
    found += [(f"broker {broker}", pause, {}) for broker, pause in pauses.brokers.items()]
    lines = [
        f"{what} {'would be paused at' if pause == would else 'is paused since'} "
        f"{since_words(pause)}{running_words(running)}"
        for what, pause, running in found
        if pause is not None
    ]
    return lines if pauses.quiesce is None else [quiesce_line(pauses.quiesce), *lines]


def running_words(counts: Mapping[str, int]) -> str:
    """Say how many steps of something that is paused are in flight; empty without any."""
    steps = counts.get("in_flight", 0) - counts.get("between_steps", 0)
    run = "runs to its end" if steps == 1 else "run to their end"
    return f"; {count_text(steps, 'step')} in flight still {run}" if steps > 0 else ""


def quiesce_line(quiesce: Quiesce, *, is_preview: bool = False) -> str:
    """Describe a quiesce and its deadline; a preview, as one that would begin."""
    match quiesce.deadline_ms:
        case None:
            until = "what has begun ends in its own time"
        case controls.AT_ONCE:
            until = "what has begun is rolled back"
        case deadline_ms:
            until = f"what has begun is rolled back at {show_time(deadline_ms)}"
    state = "would be quiesced at" if is_preview else "is quiesced since"
    return f"the reassigner {state} {since_words(quiesce)} ({until})"


def hold_lines(
    operator: OperatorClient,
    window: Window | None,
    unix_s: float,
    status: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """
    Describe what keeps a request from beginning.

    With the ``status`` of the daemon, also what clients wait for while it is carried out: of no use
    where that takes seconds, or where a display follows that shows it.
    """
    found = operator.requests.controls()
    yield from pause_lines(found.pauses)
    yield from closed_windows(found, window, unix_s)
    if status is not None and status.get("clients_wait"):
        yield str(status["clients_wait"])
