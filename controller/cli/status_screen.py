"""
The daemon's status as tables: what needs attention first, then copies, requests and brokers.

Everything is read from one status document. Cells without a value stay empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from controller.cli import status_text
from controller.cli.terminal_tables import (
    Bar,
    Column,
    Listing,
    Name,
    Paragraph,
    Part,
    Words,
    number_text,
)
from controller.core.model import BlockedBy
from controller.core.reason_kinds import COPYING, PATIENT
from controller.telemetry.advice import (
    OPEN_STATES,
    advice_for,
    count_words,
    effect_words,
    phase_of,
    remedy_for,
    state_words,
    wait_word,
)
from controller.units import ids, show_bytes, show_duration, show_estimate, show_rate, show_time

ENDED_MAX: Final = 3
"""Ended requests that are shown."""
Document = Mapping[str, Any]


def status_screen(status: Document, *, verbose: bool = False) -> Iterator[Part]:
    """Return a status as tables."""
    yield from _head(status)
    yield _troubles(status, verbose=verbose)
    yield _reasons(status, title="\nwhat to do", is_urgent=True)
    yield _in_flight(status, verbose=verbose)
    yield from _requests(status)
    yield _brokers(status)
    yield _reasons(status, title="\nwaiting or held up", is_urgent=False)


def age(status: Document, since: object) -> str:
    """Return the time from ``since`` to the moment of the status; empty if either is unknown."""
    try:
        began, now = datetime.fromisoformat(str(since)), datetime.fromisoformat(str(status["at"]))
    except (KeyError, ValueError):
        return ""
    return show_duration(max(0.0, (now - began).total_seconds()))


# --- the head ------------------------------------------------------------------------------------


def _head(status: Document) -> Iterator[Part]:
    tenure = status["tenure"]
    role = f"{status['role']}, engine {status['engine']}, "
    if tenure["held"]:
        held = age(status, tenure["since"])
        role += f"controller{f' for {held}' if held else ''} (epoch {tenure['epoch']})"
    else:
        role += "not the controller now"
    yield Paragraph(role, "dim")
    yield from (Paragraph(line, "yellow") for line in status_text.standby_lines(status))
    yield _work(status)
    for line in status_text.problem_lines(status):
        yield Paragraph(line, "red")
    for line in status_text.held_lines(status):
        yield Paragraph(line, "yellow")
    unanswered = status_text.unanswered_line(status)
    if unanswered:
        yield Paragraph(unanswered, "yellow")
    for line in status_text.orphan_lines(status):
        yield Paragraph(line, "yellow")
    yield from map(Paragraph, status_text.throttle_line(status))


def _work(status: Document) -> Part:
    # Colours are not bold: some palettes have no bright variant that can be read.
    counts: list[Words] = []
    for title, style in (("blocked", "yellow"), ("stalled", "red")):
        found = status.get(title) or {}
        # What waits by design is among the waiting ones.
        by_design = PATIENT if title == "blocked" else ()
        number = sum(count for by, count in found.items() if by not in by_design)
        if number:
            counts += [Words(", "), Words(f"{number} {title}", style)]
    return Words(status_text.work_line(status), "bold", tuple(counts))


# --- what needs attention ------------------------------------------------------------------------


def _troubles(status: Document, *, verbose: bool) -> Part:
    found = [p for p in (*status["in_flight"], *status.get("waiting", ())) if needs_attention(p)]
    styles = {True: "red", False: "yellow"}
    return Listing(
        title="\nneeds attention",
        style=styles[any(map(_is_stalled, found))],
        columns=(
            Column("partition", lambda p: Name(status_text.name_of(p), styles[_is_stalled(p)])),
            Column("step", step_of, is_number=True),
            Column("phase", lambda p: p.get("phase", "") if verbose else ""),
            Column("for", lambda p: age(status, _since(p)), is_number=True),
            Column("", lambda p: Words("STALLED" if _is_stalled(p) else "", "red")),
            Column("why", lambda p: Words(_trouble_text(p)), folds=True),
        ),
        rows=sorted(found, key=lambda p: not _is_stalled(p)),
    )


def _is_stalled(partition: Document) -> bool:
    return bool(partition.get("stalled"))


def needs_attention(partition: Document) -> bool:
    """Return whether a partition is stalled, or blocked by what does not end by itself."""
    blocked = partition["blocked_on"]
    return _is_stalled(partition) or (blocked is not None and blocked["by"] not in PATIENT)


def _since(partition: Document) -> object:
    blocked = partition["blocked_on"]
    return partition.get("phase_since") if blocked is None else blocked.get("since")


def step_of(partition: Document) -> str:
    """Return the number of the step and of all steps; empty for a pending partition."""
    return f"{partition['step']}/{partition['steps']}" if "step" in partition else ""


def _trouble_text(partition: Document) -> str:
    blocked = partition["blocked_on"]
    if blocked is not None:
        words = [status_text.beside_words(partition)]
        if words[0]:
            words += [_copied_text(_volume(partition)), _rate_text(partition)]
        beside = ", ".join(filter(None, words))
        return f"{blocked['detail']} ({blocked['by']})" + (f"; {beside}" if beside else "")
    copied, rate = _copied_text(_volume(partition)), _rate_text(partition)
    return ", ".join(filter(None, (_activity(partition), copied, rate)))


def _activity(partition: Document) -> str:
    blocked = partition["blocked_on"]
    if blocked is not None:
        return f"{wait_word(blocked['by'], begun=True)}: {blocked['by']}"
    if partition.get("state") != COPYING:
        return phase_of(partition)
    return status_text.copying_words(partition)


# --- what makes progress -------------------------------------------------------------------------


def _in_flight(status: Document, *, verbose: bool) -> Part:
    found = [p for p in status["in_flight"] if not needs_attention(p)]
    return Listing(
        title="\nin flight",
        columns=(
            Column("partition", lambda p: Name(status_text.name_of(p))),
            Column("progress", lambda p: Bar(p.get("share"))),
            Column("step", step_of, is_number=True),
            Column("state", _activity),
            Column("copied", lambda p: _copied_text(_volume(p)), is_number=True),
            Column("rate", _rate_text, is_number=True),
            Column("left", time_left, is_number=True),
            Column("phase", lambda p: p["phase"] if verbose else ""),
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
    )


def _volume(partition: Document) -> tuple[int, int] | None:
    """Return the bytes of the copies in progress, and those of whole copies; None if unknown."""
    copies, running = partition.get("copies") or (), partition.get("copying_to")
    if running:  # A copy to a dead broker is not in progress.
        copies = [c for c in copies if c["broker"] in running]
    sizes = [(c.get("bytes"), c.get("total_bytes")) for c in copies]
    if not sizes or any(held is None or total is None for held, total in sizes):
        return None
    return sum(held for held, _ in sizes), sum(total for _, total in sizes)


def _rate_text(document: Document, key: str = "bytes_per_s") -> str:
    """Return a rate in a few characters; empty for a partition that copies nothing."""
    is_shown = document.get("copies", True)
    return status_text.rate_words(document, key).removeprefix("rate ") if is_shown else ""


# --- requests and brokers ------------------------------------------------------------------------


def _requests(status: Document) -> Iterator[Part]:
    still_open = [r for r in status["requests"] if r["state"] in OPEN_STATES]
    ended = [r for r in status["requests"] if r["state"] not in OPEN_STATES]
    yield Listing(
        title="\nrequests",
        columns=(
            Column("request", lambda r: Name(r["id"])),
            Column("progress", lambda r: Bar(r.get("share"))),
            Column("done", lambda r: "{done}/{total}".format_map(r["partitions"]), is_number=True),
            Column("in flight", lambda r: _count(r, "in_flight"), is_number=True, is_extra=True),
            Column("waiting", lambda r: _count(r, "waiting"), is_number=True),
            Column("refused", lambda r: _count(r, "refused"), is_number=True, is_extra=True),
            Column("copied", lambda r: _copied_text(status_text.volume_of(r)), is_number=True),
            Column("rate", _rate_text, is_number=True),
            Column("left", time_left, is_number=True),
            Column("by", lambda r: Name(r.get("requested_by") or ""), is_extra=True),
            Column("for", lambda r: Words(r.get("asked_for") or ""), is_extra=True, folds=True),
        ),
        rows=still_open,
        note=_note,
    )
    if ended:
        yield Words("\nended", "bold")
    for request in ended[:ENDED_MAX]:
        yield Paragraph(_outcome(request), "dim")


def _note(request: Document) -> Paragraph | None:
    since, why = request.get("bytes_since"), request.get("reason")
    if request.get("no_estimate"):
        why = f"no estimate: {request['no_estimate']}"
    words = state_words(request)
    state = "" if words in {"in flight", "waiting"} else words
    taken = since and f"bytes since {show_time(since)}, when this daemon took over"
    notes = [state, why, *effect_words(request), taken]
    words = "; ".join(filter(None, notes))
    return Paragraph(f"{request['id']}: {words}", "yellow") if words else None


def _outcome(request: Document) -> str:
    words = [*count_words(request["partitions"]), *effect_words(request)]
    if request["state"] != "done" or not words:
        words.insert(0, state_words(request))
    return f"{request['id']}: {', '.join(words)}"


def _count(request: Document, kind: str) -> str:
    return number_text(request["partitions"][kind])


def _copied_text(volume: tuple[int, int] | None) -> str:
    """Return copied and whole bytes with one unit if it is the same; empty if unknown."""
    if volume is None:
        return ""
    moved, total = map(show_bytes, volume)
    same = moved.split()[1] == total.split()[1]
    return f"{moved.split()[0] if same else moved}/{total}"


def time_left(document: Document) -> str:
    """Return an estimate in a few characters."""
    words = show_estimate(document.get("eta_s"), document.get("no_estimate")).partition(":")[0]
    if not words[:1].isdigit():
        return words
    low, _, high = words.partition(" to ")
    unit = high.partition(" ")[2]
    return f"{low.removesuffix(unit).rstrip()}-{high}" if high else low


def _brokers(status: Document) -> Part:
    def number(head: str, key: str, show: Callable[[float], str] = str) -> Column[Document]:
        return Column(head, lambda row: number_text(row.get(key), show), is_number=True)

    rows = status.get("broker_loads") or ()
    return Listing(
        title="\nbrokers",
        columns=(
            Column("broker", lambda r: str(r["broker"]), is_number=True),
            Column("copies", lambda r: _count_cell(r, "incoming"), is_number=True),
            number("to receive", "in_bytes_remaining", show_bytes),
            Column("rate in", lambda r: _rate_text(r, "in_bytes_per_s"), is_number=True),
            Column("serves", lambda r: _count_cell(r, "outgoing"), is_number=True),
            number("to remove", "out_bytes_remaining", show_bytes),
            Column("rate out", lambda r: _rate_text(r, "out_bytes_per_s"), is_number=True),
            number("throttle", "throttle_bytes_per_s", show_rate),
        ),
        rows=[r for r in rows if r.get("incoming") or r.get("outgoing")],
    )


def _count_cell(row: Document, key: str) -> Words:
    """Return how many replicas a broker copies or serves, and how many of them are blocked."""
    blocked = row.get(f"{key}_blocked") or 0
    then = (Words(f" ({blocked} blocked)", "yellow"),) if blocked else ()
    return Words(number_text(row.get(key)), "", then)


def _waiting_partitions(status: Document) -> Iterator[Document]:
    """Yield the partitions that wait, those in flight last."""
    for partition in (*reversed(status.get("waiting", ())), *reversed(status["in_flight"])):
        if partition["blocked_on"] is not None:
            yield partition


def _remedy(by: str, example: Document | None) -> str:
    """Return the remedy for a reason, with commands for a partition that has it."""
    words = advice_for(by) if example is None else remedy_for(example)
    # A stalled partition without a reason copies for too long.
    return words or advice_for(BlockedBy.REPLICA_NOT_IN_ISR) or ""


# --- reasons -------------------------------------------------------------------------------------


def _reasons(status: Document, *, title: str, is_urgent: bool) -> Part:
    """Return the reasons to wait, with the partitions that each holds back and the remedy."""
    blocked, stalled = status.get("blocked") or {}, status.get("stalled") or {}
    examples = {p["blocked_on"]["by"]: p for p in _waiting_partitions(status)}
    found = [
        (by, blocked.get(by, 0), stalled.get(by, 0))
        for by in dict.fromkeys((*stalled, *blocked))
        if (bool(stalled.get(by)) or by not in PATIENT) is is_urgent
    ]
    return Listing(
        title=title,
        columns=(
            Column("reason", lambda r: COPYING if r[0] == "none" else r[0]),
            Column("partitions", lambda r: str(max(r[1:])), is_number=True),
            Column("stalled", lambda r: number_text(r[2]), is_number=True),
            Column("", lambda r: Words(_remedy(r[0], examples.get(r[0]))), folds=True),
        ),
        rows=sorted(found, key=lambda r: (-r[2], -r[1])),
    )
