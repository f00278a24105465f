"""
The daemon's status as tables: what needs attention first, then copies, requests and brokers.

Everything is read from one status document. Cells without a value stay empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from controller.cli import status_text
from controller.cli.options import ROWS_MAX
from controller.cli.tables import Column, Listing, Name, bar, paragraph
from controller.core.blocked_reasons import COPYING, IN_TURN
from controller.core.model import BlockedBy
from controller.telemetry.advice import advice_for
from controller.units import ids, show_bytes, show_duration, show_rate

OPEN: Final = frozenset({"in_flight", "waiting"})
"""The states of a request that has not ended."""
PATIENT: Final = IN_TURN | {
    BlockedBy.STATE_UNKNOWN,
    BlockedBy.LEADER_ACK,
    BlockedBy.STOP_REPLICA_ACK,
    BlockedBy.TOPIC_DELETION,
    BlockedBy.THROTTLE,
    BlockedBy.DISK_UNKNOWN,
    BlockedBy.LOG_DIR,
    BlockedBy.CONTROLLER_ROLE,
    BlockedBy.CONTROLLER_ANSWER,
}
"""Reasons that end by themselves or by design: only a stall makes them worth attention."""
ENDED_MAX: Final = 3
"""Ended requests that are shown."""
Document = Mapping[str, Any]


def status_screen(status: Document, *, rows_max: int | None = ROWS_MAX) -> RenderableType:
    """Return a status as tables of at most ``rows_max`` rows each."""
    sections: list[RenderableType] = [
        Group(*_head(status)),
        _troubles(status, rows_max),
        _reasons(status, rows_max, title="\nwhat to do", is_urgent=True),
        _in_flight(status, rows_max),
        *_requests(status, rows_max),
        _brokers(status, rows_max),
        _reasons(status, rows_max, title="\nwaiting", is_urgent=False),
    ]
    return Group(*sections)


def age(status: Document, since: object) -> str:
    """Return the time from ``since`` to the moment of the status; empty if either is unknown."""
    try:
        began, now = datetime.fromisoformat(str(since)), datetime.fromisoformat(str(status["at"]))
    except (KeyError, ValueError):
        return ""
    return show_duration(max(0.0, (now - began).total_seconds()))


# --- the head ------------------------------------------------------------------------------------


def _head(status: Document) -> Iterator[RenderableType]:
    tenure = status["tenure"]
    role = f"{status['role']}, engine {status['engine']}, "
    if tenure["held"]:
        held = age(status, tenure["since"])
        role += f"controller{f' for {held}' if held else ''} (epoch {tenure['epoch']})"
    else:
        role += "not the controller now"
    yield paragraph(role, "dim")
    yield _work(status)
    for reason in status.get("refused_because") or ():
        yield paragraph(f"cannot be the controller: {reason}", "red")
    if status.get("unready_because"):
        yield paragraph(f"not ready: {status['unready_because']}", "red")
    for broker, why in status.get("unreachable_brokers", {}).items():
        yield paragraph(f"broker {broker} cannot be reached: {why}", "red")
    for line in status_text.held_lines(status):
        yield paragraph(line, "yellow")
    unanswered = status_text.unanswered_line(status)
    if unanswered:
        yield paragraph(unanswered, "yellow")
    for line in status_text.orphan_lines(status):
        yield paragraph(line, "yellow")


def _work(status: Document) -> RenderableType:
    # Colours are not bold: some palettes have no bright variant that can be read.
    line = Text().append(status_text.work_line(status), "bold")
    for title, style in (("blocked", "yellow"), ("stalled", "red")):
        number = sum((status.get(title) or {}).values())
        if number:
            line.append(", ").append(f"{number} {title}", style)
    return line


# --- what needs attention ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Trouble:
    """A partition that is stalled, or blocked by something that does not end by itself."""

    name: str
    step: str
    age: str
    is_stalled: bool
    reason: str


def _troubles(status: Document, rows_max: int | None) -> RenderableType:
    found = [_trouble(status, p) for p in status["in_flight"] if needs_attention(p)]
    found += [_trouble(status, p) for p in status.get("waiting", ()) if needs_attention(p)]
    return Listing(
        title="\nneeds attention",
        style="red" if any(t.is_stalled for t in found) else "yellow",
        columns=(
            Column("partition", lambda t: Name(t.name, "red" if t.is_stalled else "yellow")),
            Column("step", lambda t: t.step, is_number=True),
            Column("for", lambda t: t.age, is_number=True),
            Column("", lambda t: Text("STALLED" if t.is_stalled else "", "red")),
            Column("waits for", lambda t: Text(t.reason), folds=True),
        ),
        rows=sorted(found, key=lambda t: not t.is_stalled),
        rows_max=rows_max,
    )


def needs_attention(partition: Document) -> bool:
    """Return whether a partition is stalled, or blocked by what does not end by itself."""
    if partition.get("stalled"):
        return True
    blocked = partition["blocked_on"]
    return blocked is not None and blocked["by"] not in PATIENT


def _trouble(status: Document, partition: Document) -> _Trouble:
    blocked = partition["blocked_on"]
    if blocked is not None:
        reason, since = f"{blocked['by']}: {blocked['detail']}", blocked.get("since")
    else:
        reason, since = _copying_to(partition), partition.get("phase_since")
    return _Trouble(
        name_of(partition),
        step_of(partition),
        age(status, since),
        bool(partition.get("stalled")),
        reason,
    )


def name_of(partition: Document) -> str:
    """Return the name of a partition."""
    return f"{partition['topic']}-{partition['partition']}"


def step_of(partition: Document) -> str:
    """Return the number of the step and of all steps; empty for a pending partition."""
    return f"{partition['step']}/{partition['steps']}" if "step" in partition else ""


def _copying_to(partition: Document) -> str:
    copied, rate = _copied_text(_volume(partition)), _rate(_speed(partition))
    amounts = ", ".join(words for words in (copied, rate) if words)
    return f"{_activity(partition)}{f', {amounts}' if amounts else ''}"


def _activity(partition: Document) -> str:
    """Return what a partition in flight does."""
    blocked = partition["blocked_on"]
    if blocked is not None:
        return f"waits: {blocked['by']}"
    if partition.get("state") != COPYING:
        return f"phase {partition['phase']}"
    return (
        f"{COPYING} to {ids(r for r in partition['adding_replicas'] if r not in partition['isr'])}"
    )


# --- what makes progress -------------------------------------------------------------------------


def _in_flight(status: Document, rows_max: int | None) -> RenderableType:
    found = [p for p in status["in_flight"] if not needs_attention(p)]
    return Listing(
        title="\nin flight",
        columns=(
            Column("partition", lambda p: Name(name_of(p))),
            Column("progress", lambda p: bar(_share(p))),
            Column("step", step_of, is_number=True),
            Column("state", _activity),
            Column("copied", lambda p: _copied_text(_volume(p)), is_number=True),
            Column("rate", lambda p: _rate(_speed(p)), is_number=True),
            Column("left", _left_text, is_number=True),
            Column("phase", lambda p: p["phase"], is_extra=True),
            Column(
                "for", lambda p: age(status, p.get("phase_since")), is_number=True, is_extra=True
            ),
            Column("replicas", lambda p: ids(p["replicas"]), is_extra=True),
            Column("target", lambda p: ids(p["target_replicas"]), is_extra=True),
            Column("isr", lambda p: ids(p["isr"]), is_extra=True),
            Column("leader", lambda p: str(p["leader"]), is_extra=True, is_number=True),
            Column("request", lambda p: Name(p.get("request") or ""), is_extra=True),
        ),
        rows=sorted(found, key=lambda p: p.get("state") != COPYING),
        rows_max=rows_max,
    )


def _share(partition: Document) -> float:
    """Return the share of a partition's steps that is done; without bytes, a step counts half."""
    step, steps = int(partition["step"]), int(partition["steps"])
    volume = _volume(partition)
    part = 0.5 if volume is None else min(1.0, volume[0] / max(1, volume[1]))
    return max(0.0, step - 1 + part) / max(1, steps)


def _volume(partition: Document) -> tuple[int, int] | None:
    """Return the bytes of the copies in progress, and those of whole copies; None if unknown."""
    copies = partition.get("copies") or ()
    sizes = [(c.get("bytes"), c.get("total_bytes")) for c in copies]
    if not sizes or any(held is None or total is None for held, total in sizes):
        return None
    return sum(held for held, _ in sizes), sum(total for _, total in sizes)


def _speed(partition: Document) -> int:
    """Return the bytes per second of all copies of a partition; 0 if unknown."""
    return sum(copy.get("bytes_per_s") or 0 for copy in partition.get("copies") or ())


def _left_text(partition: Document) -> str:
    """Return the time until the last copy of the step is whole; empty if any is unknown."""
    found = [copy.get("eta_s") for copy in partition.get("copies") or ()]
    return show_duration(max(found)) if found and None not in found else ""


# --- requests and brokers ------------------------------------------------------------------------


def _requests(status: Document, rows_max: int | None) -> Iterator[RenderableType]:
    still_open = [r for r in status["requests"] if r["state"] in OPEN]
    ended = [r for r in status["requests"] if r["state"] not in OPEN]
    yield Listing(
        title="\nrequests",
        columns=(
            Column("request", lambda r: Name(r["id"])),
            Column("progress", lambda r: bar(share_of(r))),
            Column("done", lambda r: _done_text(r["partitions"]), is_number=True),
            Column("in flight", lambda r: _count(r, "in_flight"), is_number=True, is_extra=True),
            Column("waiting", lambda r: _count(r, "waiting"), is_number=True),
            Column("refused", lambda r: _count(r, "refused"), is_number=True, is_extra=True),
            Column("copied", lambda r: _copied_text(status_text.volume_of(r)), is_number=True),
            Column("rate", lambda r: _rate(r.get("bytes_per_s")), is_number=True),
            Column("left", lambda r: time_left(r.get("eta_s")), is_number=True),
            Column("by", lambda r: Name(r.get("requested_by") or ""), is_extra=True),
            Column("for", lambda r: Text(r.get("asked_for") or ""), is_extra=True, folds=True),
        ),
        rows=still_open,
        rows_max=rows_max,
    )
    for request in still_open[:rows_max]:
        if request.get("reason"):
            yield paragraph(f"{request['id']}: {request['reason']}", "yellow")
    if ended:
        yield Text("\nended", "bold")
    for request in ended[:ENDED_MAX]:
        yield paragraph(_outcome(request), "dim")


def _outcome(request: Document) -> str:
    counts = request["partitions"]
    words = [f"{counts['done']} of {counts['total']} done"] if counts["total"] else []
    kinds = ("refused", "cancelled", "superseded", "skipped")
    words += [f"{counts[kind]} {kind}" for kind in kinds if counts.get(kind)]
    return f"{request['id']}: {', '.join(words) or request['state']}"


def share_of(request: Document) -> float:
    """Return the share of a request that is done, in bytes if they are known."""
    share = status_text.share_copied(request)
    counts: Mapping[str, int] = request["partitions"]
    ended = counts["done"] + counts["refused"] + counts["cancelled"]
    return ended / max(1, counts["total"]) if share is None else share


def _done_text(counts: Document) -> str:
    return f"{counts['done']}/{counts['total']}"


def _count(request: Document, kind: str) -> str:
    return _number(request["partitions"][kind])


def _number(number: int) -> str:
    return str(number) if number else ""


def _copied_text(volume: tuple[int, int] | None) -> str:
    """Return copied and whole bytes with one unit if it is the same; empty if unknown."""
    if volume is None:
        return ""
    moved, total = map(show_bytes, volume)
    same = moved.split()[1] == total.split()[1]
    return f"{moved.split()[0] if same else moved}/{total}"


def _rate(bytes_per_s: object) -> str:
    return show_rate(bytes_per_s) if isinstance(bytes_per_s, int | float) and bytes_per_s else ""


def time_left(found: object) -> str:
    """Return an estimate in a few characters; empty if unknown."""
    words = status_text.eta_words(found).removesuffix(" left")
    low, _, high = words.partition(" to ")
    unit = high.partition(" ")[2]
    return f"{low.removesuffix(unit).rstrip()}-{high}" if high else low


def _brokers(status: Document, rows_max: int | None) -> RenderableType:
    rows = status.get("broker_loads") or ()
    busy = [r for r in rows if r.get("incoming") or r.get("outgoing")]
    return Listing(
        title="\nbrokers",
        columns=(
            Column("broker", lambda r: str(r["broker"]), is_number=True),
            Column("copies", lambda r: _number(r.get("incoming") or 0), is_number=True),
            Column("to receive", lambda r: _bytes(r.get("in_bytes_remaining")), is_number=True),
            Column("rate in", lambda r: _rate(r.get("in_bytes_per_s")), is_number=True),
            Column("serves", lambda r: _number(r.get("outgoing") or 0), is_number=True),
            Column("to drop", lambda r: _bytes(r.get("out_bytes_remaining")), is_number=True),
            Column("rate out", lambda r: _rate(r.get("out_bytes_per_s")), is_number=True),
        ),
        rows=busy,
        rows_max=rows_max,
    )


def _bytes(amount: object) -> str:
    return show_bytes(amount) if isinstance(amount, int | float) and amount else ""


# --- reasons -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reason:
    """A reason to wait: how many partitions it holds back, and the remedy."""

    by: str
    blocked: int
    stalled: int

    @property
    def remedy(self) -> str:
        """What ends the wait."""
        # A stalled partition without a reason copies for too long.
        return advice_for(self.by) or advice_for(BlockedBy.REPLICA_NOT_IN_ISR) or ""

    @property
    def is_urgent(self) -> bool:
        """Whether an operator should look at it."""
        return bool(self.stalled) or self.by not in PATIENT


def _reasons(
    status: Document, rows_max: int | None, *, title: str, is_urgent: bool
) -> RenderableType:
    blocked, stalled = status.get("blocked") or {}, status.get("stalled") or {}
    names = dict.fromkeys((*stalled, *blocked))
    found = [_Reason(by, blocked.get(by, 0), stalled.get(by, 0)) for by in names]
    return Listing(
        title=title,
        columns=(
            Column("reason", lambda r: COPYING if r.by == "none" else r.by),
            Column("partitions", lambda r: str(max(r.blocked, r.stalled)), is_number=True),
            Column("stalled", lambda r: _number(r.stalled), is_number=True),
            Column("", lambda r: Text(r.remedy), folds=True),
        ),
        rows=sorted(
            (r for r in found if r.is_urgent is is_urgent), key=lambda r: (-r.stalled, -r.blocked)
        ),
        rows_max=rows_max,
    )
