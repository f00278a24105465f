"""Requests as tables for a terminal: open ones, ended ones, and everything about one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from controller.cli.request_state import RequestState
from controller.cli.status_screen import time_left
from controller.cli.tables import Column, Listing, Name, fields, paragraph
from controller.core.requests.outcomes import Summary
from controller.previews.entries import EntryState
from controller.units import MS_PER_S, ids, show_bytes, show_duration, show_time

_ORDER: Final = ("in_flight", "waiting", "open", "not_accepted")
STYLES: Final = {"in_flight": "green", "not_accepted": "yellow"}
"""Styles of states."""
Document = Mapping[str, Any]


def open_screen(
    rows: Sequence[Document],
    known: Mapping[str, Document],
    now_ms: int,
    rows_max: int | None,
) -> RenderableType:
    """
    Return the requests that have not ended.

    Args:
        rows: The requests as in ``--json``.
        known: What the daemon knows about them, by id.
        now_ms: The time, in milliseconds since 1970.
        rows_max: The largest number of rows; None: all.

    """
    return Listing(
        columns=(
            Column("request", lambda r: Name(r["id"])),
            Column("state", lambda r: Text(r["state"], STYLES.get(r["state"], ""))),
            Column("done", _done_text, is_number=True),
            Column("open", _open_text, is_number=True),
            Column("refused", lambda r: _number(_counts(r).get("refused", 0)), is_number=True),
            Column("left", lambda r: time_left(known.get(r["id"], {}).get("eta_s"))),
            Column("age", lambda r: _age(r["submitted_ms"], now_ms), is_number=True),
            Column("submitted", lambda r: _time(r["submitted_ms"]), is_extra=True),
            Column("by", lambda r: Name(r["requested_by"]), is_extra=True),
            Column("reason", lambda r: Text(_reason(r)), folds=True),
        ),
        rows=sorted(rows, key=_urgency),
        rows_max=rows_max,
    )


def _urgency(row: Document) -> tuple[bool, int]:
    state = row["state"]
    return not row.get("unreadable"), _ORDER.index(state) if state in _ORDER else len(_ORDER)


def _counts(row: Document) -> Mapping[str, int]:
    """Return the counts of a request; one that is not accepted yet has only a total."""
    counts: Mapping[str, int] | None = row.get("partitions")
    return {"total": row["total"]} if counts is None else counts


def _done_text(row: Document) -> str:
    counts = _counts(row)
    return f"{counts.get('done', 0)}/{counts['total']}" if counts["total"] else ""


def _open_text(row: Document) -> str:
    counts = _counts(row)
    in_flight = counts.get("in_flight", 0) + counts.get("waiting", 0)
    return _number(counts.get("open", in_flight))


def _number(number: int) -> str:
    return str(number) if number else ""


def _age(milliseconds: int, now_ms: int) -> str:
    seconds = max(0.0, (now_ms - milliseconds) / MS_PER_S)
    return show_duration(seconds) if milliseconds else ""


def _time(milliseconds: int) -> str:
    return show_time(milliseconds) if milliseconds else ""


def _reason(row: Document) -> str:
    return str(row.get("unreadable") or row["reason"] or "")


def ended_screen(summaries: Sequence[Summary], rows_max: int | None) -> RenderableType:
    """Return the outcomes of requests."""
    return Listing(
        columns=(
            Column("ended", lambda s: _time(s.ended_ms)),
            Column("request", lambda s: Name(s.request)),
            Column("done", lambda s: f"{s.done}/{s.total}", is_number=True),
            Column("refused", _refused_text, is_number=True),
            Column("moved", _moved_text, is_number=True),
            Column("other", lambda s: Text(_others(s)), folds=True),
            Column("by", lambda s: Name(s.requested_by), is_extra=True),
            Column("kind", lambda s: s.kind, is_extra=True),
            Column("reason", lambda s: Text(s.reason), is_extra=True, folds=True),
        ),
        rows=summaries,
        rows_max=rows_max,
    )


def _refused_text(summary: Summary) -> Text:
    return Text(_number(len(summary.refused) + summary.refused_left_out), "red")


def _moved_text(summary: Summary) -> str:
    return "" if summary.moved_bytes is None else show_bytes(summary.moved_bytes)


def _others(summary: Summary) -> str:
    """Count the outcomes other than done and refused."""
    counts = ((kind.value.replace("_", " "), n) for kind, n in summary.fates.items())
    return ", ".join(f"{n} {kind}" for kind, n in counts if n)


def request_screen(
    state: RequestState, headline: str, details: Iterable[str], rows_max: int | None
) -> Iterator[RenderableType]:
    """
    Return everything about one request: what was refused or cancelled first, then what is open.

    Args:
        state: The request.
        headline: Its state in one line.
        details: Its options and parts, as ``name: value``.
        rows_max: The largest number of rows; None: all.

    """
    yield paragraph(headline, "bold")
    pairs = (line.partition(": ") for line in details)
    yield fields((name, value) for name, _, value in pairs)
    yield Listing(
        columns=(
            Column("partition", lambda r: Name(r[0])),
            Column("state", lambda r: Text(r[1], r[3])),
            Column("", lambda r: Text(r[2]), folds=True),
        ),
        rows=list(_entries(state)),
        rows_max=rows_max,
    )


def _entries(state: RequestState) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, state, detail and style of the entries that are not done."""
    for refusal in state.refused:
        yield refusal.entry, "refused", refusal.detail, "red"
    for outcome in state.outcomes:
        yield str(outcome.partition), outcome.fate.replace("_", " "), outcome.detail, "yellow"
    still_open = (e for e in state.entries if e.state.is_open)
    for entry in sorted(still_open, key=lambda e: e.state is not EntryState.MOVING):
        now = ids(entry.assignment.replicas) if entry.assignment is not None else "?"
        yield str(entry.partition), entry.state.value, f"{now} -> {ids(entry.target)}", ""
