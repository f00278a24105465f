"""
``list``: open requests, ended requests, or everything about one request.

Requests are read from ZooKeeper. The progress of open ones comes from the daemon if it answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from controller.actions.work_control import request_ids
from controller.cli import request_state
from controller.cli.context import CommandContext
from controller.cli.options import argument, command, flag, option
from controller.cli.output import print_line
from controller.cli.request_state import undone_in
from controller.cli.status_screen import time_left
from controller.cli.status_text import request_line
from controller.cli.terminal_tables import (
    Column,
    Fields,
    Listing,
    Name,
    Paragraph,
    Part,
    Words,
    number_text,
)
from controller.core.model import (
    OutcomeKind,
    ReassignmentSpec,
    RequestId,
    count_text,
    request_text,
)
from controller.core.pacing.controls import UNTHROTTLED, RequestLimits
from controller.core.requests.outcomes import (
    RequestHistory,
    Summary,
    Undone,
    entry_counts,
    outcome_state,
)
from controller.core.requests.submissions import (
    CancelScope,
    RequestOptions,
    Submission,
    Throttle,
    Window,
)
from controller.previews.entries import EntryState
from controller.previews.holds import pause_lines
from controller.telemetry.advice import (
    REQUEST_STATES,
    count_words,
    effect_words,
    state_words,
    tone_of,
)
from controller.units import (
    MS_PER_S,
    NONE,
    ids,
    show_bytes,
    show_duration,
    show_throttle,
    show_time,
)

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

_ORDER: Final = {state: n for n, state in enumerate((*REQUEST_STATES, "open", "not_accepted"))}
STYLES: Final = {"busy": "cyan", "done": "green", "wait": "yellow", "bad": "red"}
"""The style of each tone."""
Document = Mapping[str, Any]


@command("all_rows", "as_json")
def list_requests(
    context: CommandContext,
    request: str | None = argument("REQUEST", "Show all details of this request."),
    *,
    history: bool = flag("--history", "List ended requests, newest first."),
    limit: int = option("N", "With --history: maximum number of requests.", least=1, default=50),
) -> None:
    """
    List open or ended requests, or show all details of one request.

    Example: reassigner list --history --zookeeper zk1:2181/kafka

    Exit code: 0 listed, 1 error or unknown request.
    """
    named = request_ids([] if request is None else [request])
    with context.connected() as operator:
        if named:
            _show_request(context, operator, named[0])
        elif history:
            _list_ended(context, operator, newest=limit)
        else:
            _list_open(context, operator)


def _list_open(context: CommandContext, operator: OperatorClient) -> None:
    status, now_ms = context.status_of_leader(operator), context.wall_ms()
    submitted = operator.requests.open_submissions()
    histories = operator.outcomes.histories(request_state.open_requests(operator))
    known = {r["id"]: r for r in (status or {}).get("requests", ())}
    open_counts = _open_counts(operator) if histories and not known else Counter()
    undone = undone_in(operator) if histories and not known else {}
    rows = [
        _open_row(h, known.get(name), open_counts[name], undone.get(name))
        for name, h in histories.items()
    ]
    rows += [_submitted_row(s) for s in submitted if s.request not in histories]
    notes = list(_notes(operator))
    nothing = [] if rows else ["No request is open."]
    context.print_result(
        lambda: {"requests": rows, "notes": notes, "daemon_answers": status is not None},
        chain((_open_line(row, known.get(row["id"])) for row in rows), nothing, notes),
        chain(
            [_open_screen(rows, known, now_ms)],
            nothing,
            (Paragraph(note, "yellow") for note in notes),
        ),
    )


def _open_counts(operator: OperatorClient) -> Counter[RequestId]:
    """Count the records of each request, which is slow; needed without a daemon."""
    specs = operator.partitions.specs(operator.partitions.reassigned_partitions())
    return Counter(spec.request for spec in specs.values() if isinstance(spec, ReassignmentSpec))


def _open_row(
    history: RequestHistory,
    known: Mapping[str, Any] | None,
    still_open: int,
    undone: Undone | None,
) -> dict[str, Any]:
    if known is not None:
        counts = dict(known["partitions"])
    else:
        fates, refused = Counter(e.fate for e in history.endings), len(history.refused)
        ended = refused + fates.total()
        counts = entry_counts(
            total=history.total,
            done=max(0, history.accepted + refused - still_open - ended),
            refused=refused,
            fates=fates,
            undone=0 if undone is None else undone.entries,
        )
        counts["open"] = still_open
    submitted = [p.created_ms for p in history.parts.values()]
    origin = _origin(history.options)
    # A drain without a reason is named by its brokers, which the daemon knows.
    origin["reason"] = origin["reason"] or (known or {}).get("asked_for") or ""
    return {
        "id": history.request,
        "state": "open" if known is None else known["state"],
        "waits": [] if known is None else known.get("waits", []),
        "submitted_ms": min(submitted, default=0),
        "partitions": counts,
        **_effects(history, undone),
        **origin,
    }


def _effects(history: RequestHistory, undone: Undone | None) -> dict[str, Any]:
    """Return what a cancellation does to requests, and which one undid a request."""
    return {
        "cancels": dict(history.cancels),
        "undoes": dict(history.undoes),
        "undone_by": None if undone is None else undone.by,
    }


def _submitted_row(submission: Submission) -> dict[str, Any]:
    return {
        "id": submission.request,
        "state": "not_accepted",
        "znode": submission.name,
        "submitted_ms": submission.created_ms,
        "total": len(submission.entries) + len(submission.refused),
        "unreadable": submission.unreadable,
        **_origin(submission.options),
    }


def _origin(options: RequestOptions) -> dict[str, Any]:
    return _parts(options, "reason", "requested_by", "approved", "approved_by", "priority")


def _open_line(row: Mapping[str, Any], known: Mapping[str, Any] | None) -> str:
    who = f", by {row['requested_by']}" if row["requested_by"] else ""
    why = f": {row['reason']}" if row["reason"] else ""
    since = f", submitted {show_time(row['submitted_ms'])}" if row["submitted_ms"] else ""
    if row["state"] == "not_accepted":
        what = row["unreadable"] or count_text(row["total"], "partition")
        return f"{request_text(row['id'])}: not accepted yet, {what}{since}{who}{why}"
    if known is not None:
        return f"{request_line(known, names_purpose=False)}{since}{who}{why}"
    counts = row["partitions"]
    words = [*count_words(counts), *effect_words(row)]
    words[1:1] = [f"{counts['open']} open"]
    return f"{request_text(row['id'])}: {', '.join(words)}{since}{who}{why}"


def _notes(operator: OperatorClient) -> Iterator[str]:
    switch = operator.requests.kill_switch()
    if switch is not None:
        why = f": {switch.reason}" if switch.reason else ""
        yield f"new reassignments are disabled since {show_time(switch.since_ms)}{why}"
    yield from pause_lines(operator.requests.controls().pauses)
    cancellation = operator.requests.cancellation()
    if cancellation is not None:
        yield f"{cancellation.scope.noun} in progress: {cancellation.request}"
    queue = operator.requests.queue()
    if queue is not None:
        yield f"{count_text(len(queue.entries), 'partition')} in the queue"


def _list_ended(context: CommandContext, operator: OperatorClient, *, newest: int) -> None:
    """Print the outcomes of the last requests, the newest first; first drains that are done."""
    names = operator.outcomes.ended_requests()
    undone = undone_in(operator)
    histories = operator.outcomes.histories(n for n, has_ended in names.items() if has_ended)
    ended = [_ended_row(h.summary, h, undone.get(n)) for n, h in histories.items() if h.summary]
    # Outcomes of an older format have no time: they keep the order in which they were written.
    ended.reverse()
    ended.sort(key=lambda row: row["ended_ms"], reverse=True)
    has_drains = any(n.startswith("drain-") and not over for n, over in names.items())
    standing = _standing_rows(context, operator) if has_drains else []
    shown = [*standing, *ended][:newest]
    context.print_result(
        lambda: {"requests": shown}, map(_ended_line, shown), [_ended_screen(shown)]
    )
    if not shown and not context.as_json:
        print_line("No request has ended yet, or its outcome is no longer kept.")


def _standing_rows(context: CommandContext, operator: OperatorClient) -> list[dict[str, Any]]:
    """Return the drains with nothing left to do, which stand until they are stopped."""
    status = context.status_of_leader(operator) or {}
    return [
        {
            **{key: request[key] for key in ("id", "kind", "state")},
            **request["partitions"],
            **{key: request[key] for key in ("cancels", "undoes", "undone_by")},
            "reason": request["asked_for"] or "",
            "requested_by": request["requested_by"] or "",
            "ended_ms": 0,
            "moved_bytes": (request["bytes"] or {}).get("moved"),
        }
        for request in status.get("requests", ())
        if request["state"] == "standing"
    ]


def _ended_row(summary: Summary, history: RequestHistory, undone: Undone | None) -> dict[str, Any]:
    counts = summary.counts(0 if undone is None else undone.entries)
    return {
        "id": summary.request,
        "kind": summary.kind,
        "state": outcome_state(counts, undone),
        **counts,
        "rolled_back": summary.fates.get(OutcomeKind.ROLLED_BACK, 0),
        **_effects(history, undone),
        **_parts(summary, "reason", "requested_by", "approved", "approved_by"),
        **_parts(summary, "submitted_ms", "ended_ms", "moved_bytes"),
    }


def _ended_line(row: Document) -> str:
    when = f"{show_time(row['ended_ms'])}  " if row["ended_ms"] else ""
    parts = list(count_words(row))
    if row["moved_bytes"] is not None:
        parts.append(f"{show_bytes(row['moved_bytes'])} moved")
    parts += effect_words(row)
    if row["state"] == "standing" or not parts:
        parts.append(state_words(row))
    by = f", by {row['requested_by']}" if row["requested_by"] else ""
    why = f": {row['reason']}" if row["reason"] else ""
    kind = CancelScope.ALL.noun if row["undoes"] else row["kind"]
    return f"{when}{row['id']} ({kind}): {', '.join(parts)}{by}{why}"


def _parts(found: Summary | RequestOptions, *names: str) -> dict[str, Any]:
    return {name: getattr(found, name) for name in names}


def _show_request(context: CommandContext, operator: OperatorClient, request: RequestId) -> None:
    state = request_state.read_request(operator, request)
    headline = ", ".join((f"{request_text(state.request)}: {state.sentence()}", *_said(state)))
    if state.history.summary is not None:
        headline = _ended_line(_ended_row(state.history.summary, state.history, state.undone))
    live = operator.requests.controls().limits.requests.get(request, RequestLimits())
    details = _detail_lines(state, live)
    context.print_result(
        lambda: {**request_document(state), "set_live": _live_document(live)},
        chain([headline], details, request_state.problem_lines(state)),
        _request_screen(state, headline, details),
    )


def _said(state: request_state.RequestState) -> Iterator[str]:
    """Say what a cancellation that has not ended does to which requests."""
    return effect_words({"state": "open", **_effects(state.history, state.undone)})


def _detail_lines(state: request_state.RequestState, live: RequestLimits) -> Iterator[str]:
    history = state.history
    yield from _option_lines(state.options, live)
    # A drain and a cancellation have parts without entries of their own.
    for part in (part for part in history.parts.values() if part.total):
        total = count_text(part.total, "partition")
        yield f"part {part.name}: {total}, submitted {show_time(part.created_ms)}"
    for submission in state.submitted:
        what = submission.unreadable or count_text(len(submission.entries), "partition")
        yield f"part {submission.name}: not accepted yet, {what}"
    for name, why in history.unreadable.items():
        yield f"{name} cannot be decoded: {why}"


def _option_lines(options: RequestOptions, live: RequestLimits) -> Iterable[str]:
    """Describe the options of a request, and what was changed since its submission."""
    values: dict[str, object | None] = {
        "reason": options.reason or None,
        "requested by": options.requested_by or None,
        "approved": options.approved or None,
        "approved by": options.approved_by or None,
        "log dirs throttle": _rate_text(options.log_dirs_throttle),
        "atomic": "yes" if options.atomic else None,
    }
    yield from (f"{name}: {value}" for name, value in values.items() if value is not None)
    submitted, changed = _changeable(options), _changeable(live)
    submitted["priority"] = options.priority or None
    for name, value in submitted.items():
        now = changed[name]
        if now is not None:
            before = "" if value is None else f"; submitted with {value}"
            yield f"{name}: {now} (set live{before})"
        elif value is not None:
            yield f"{name}: {value} (as submitted)"


def _changeable(found: RequestOptions | RequestLimits) -> dict[str, object | None]:
    """Return the options that can be changed after the submission."""
    lagging = found.tolerate_lagging
    return {
        "priority": found.priority,
        "step size": found.step_size,
        "throttle": _rate_text(found.throttle),
        "window": found.window,
        "max partitions in flight": found.max_partitions_in_flight,
        "tolerates lagging": ids(lagging) if lagging else None,
    }


def _rate_text(throttle: Throttle | None) -> str | None:
    if throttle == UNTHROTTLED:
        return NONE
    return None if throttle is None else show_throttle(throttle, "")


def _live_document(live: RequestLimits) -> dict[str, Any]:
    """Return what was changed since the submission; a throttle that was removed is null."""
    values = {f.name: getattr(live, f.name) for f in fields(live)}
    return {
        name: None if value == UNTHROTTLED else str(value) if isinstance(value, Window) else value
        for name, value in values.items()
        if value is not None
    }


def request_document(state: request_state.RequestState) -> dict[str, Any]:
    """Return all details of a request."""
    summary, history, options = state.history.summary, state.history, state.options
    return {
        "id": state.request,
        "summary": None if summary is None else _ended_row(summary, history, state.undone),
        "partitions": state.counts(),
        **_effects(history, state.undone),
        "options": {
            **_origin(options),
            **_parts(options, "step_size", "throttle", "log_dirs_throttle"),
            "window": None if options.window is None else str(options.window),
            **_parts(options, "max_partitions_in_flight", "atomic", "tolerate_lagging"),
        },
        "parts": [
            {"znode": p.name, "total": p.total, "submitted_ms": p.created_ms}
            for p in history.parts.values()
        ],
        "not_accepted": [s.name for s in state.submitted],
        "entries": [e.document() for e in state.entries],
        "refused": [request_state.refusal_document(r) for r in state.history.refused],
        "endings": request_state.outcome_documents(state.history.endings),
    }


# --- tables for a terminal -----------------------------------------------------------------------


def _open_screen(rows: Sequence[Document], known: Mapping[str, Document], now_ms: int) -> Part:
    """Return the open requests; ``known`` has what the daemon knows about them, by id."""

    def age(submitted_ms: float) -> str:
        return show_duration(max(0.0, (now_ms - submitted_ms) / MS_PER_S))

    return Listing(
        columns=(
            Column("request", lambda r: Name(r["id"])),
            Column("state", _state_cell),
            Column("done", _done_text, is_number=True),
            Column("open", _open_text, is_number=True),
            Column("refused", lambda r: number_text(_counts(r).get("refused", 0)), is_number=True),
            Column("left", lambda r: time_left(known.get(r["id"], {}))),
            Column("age", lambda r: number_text(r["submitted_ms"], age), is_number=True),
            Column("submitted", lambda r: number_text(r["submitted_ms"], show_time), is_extra=True),
            Column("by", lambda r: Name(r["requested_by"]), is_extra=True),
            Column("reason", lambda r: Words(r.get("unreadable") or r["reason"] or ""), folds=True),
        ),
        rows=sorted(
            rows, key=lambda r: (not r.get("unreadable"), _ORDER.get(r["state"], len(_ORDER)))
        ),
    )


def _state_cell(row: Document) -> Words:
    tone = "wait" if row["state"] == "not_accepted" else tone_of(row["state"])
    return Words(state_words(row), STYLES.get(tone, ""))


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
    return number_text(counts.get("open", in_flight))


def _ended_screen(rows: Sequence[Document]) -> Part:
    """Return the outcomes of requests."""
    return Listing(
        columns=(
            Column("ended", lambda r: number_text(r["ended_ms"], show_time)),
            Column("request", lambda r: Name(r["id"])),
            Column("state", _state_cell, is_extra=True),
            Column(
                "done", lambda r: f"{r['done']}/{r['total']}" if r["total"] else "", is_number=True
            ),
            Column("refused", lambda r: Words(number_text(r["refused"]), "red"), is_number=True),
            Column(
                "moved",
                lambda r: "" if r["moved_bytes"] is None else show_bytes(r["moved_bytes"]),
                is_number=True,
            ),
            Column(
                "other",
                lambda r: Words(", ".join(_other_words(r)), _state_cell(r).style),
                folds=True,
            ),
            Column("by", lambda r: Name(r["requested_by"]), is_extra=True),
            Column("kind", lambda r: r["kind"], is_extra=True),
            Column("reason", lambda r: Words(r["reason"]), is_extra=True, folds=True),
        ),
        rows=rows,
    )


def _other_words(row: Document) -> list[str]:
    """Describe the outcomes other than done and refused, and what a cancellation did."""
    kinds = {key: row[key] for key in ("undone", "cancelled", "superseded", "skipped")}
    return [*count_words({"total": 0, **kinds}), *effect_words(row)]


def _request_screen(
    state: request_state.RequestState, headline: str, details: Iterable[str]
) -> Iterator[Part]:
    """Return everything about one request; what was refused or cancelled comes first."""
    yield Paragraph(headline, "bold")
    pairs = (line.partition(": ") for line in details)
    yield Fields((name, value) for name, _, value in pairs)
    yield Listing(
        columns=(
            Column("partition", lambda r: Name(r[0])),
            Column("state", lambda r: Words(r[1], r[3])),
            Column("", lambda r: Words(r[2]), folds=True),
        ),
        rows=list(_entries(state)),
    )


def _entries(state: request_state.RequestState) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, state, detail and style of the entries that are not done."""
    for refusal in state.history.refused:
        yield refusal.entry, "refused", refusal.detail, "red"
    for outcome in state.history.endings:
        yield str(outcome.partition), outcome.fate.replace("_", " "), outcome.detail, "yellow"
    still_open = (e for e in state.entries if e.state.is_open)
    for entry in sorted(still_open, key=lambda e: e.state is not EntryState.MOVING):
        now = ids(entry.assignment.replicas) if entry.assignment is not None else "?"
        yield str(entry.partition), entry.state.value, f"{now} -> {ids(entry.target)}", ""
