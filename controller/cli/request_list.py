"""
``list``: the requests that are open, those that ended, or everything about one.

From ZooKeeper alone; how far the open ones have come is the daemon's to say where it answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controller.cli.exits import Exit
from controller.cli.pause_text import pause_lines
from controller.cli.ports import OperatorPort
from controller.cli.report_text import entry_document, refusal_document, request_line, say, say_json
from controller.cli.request_standing import RequestStanding, stand_of, standing_lines
from controller.cli.units import show_bytes, show_time
from controller.core.model import ReassignmentSpec, RequestId
from controller.core.outcomes import RequestHistory, Summary
from controller.core.submissions import RequestOptions, Submission


def list_open(operator: OperatorPort, status: Mapping[str, Any] | None, *, as_json: bool) -> Exit:
    """Print what was asked for and has not ended."""
    submitted = [
        s for s in operator.read_submissions(operator.submission_names()).values() if s is not None
    ]
    open_ids = [name for name, has_ended in operator.request_ids().items() if not has_ended]
    histories = operator.read_history(open_ids)
    told = {r["id"]: r for r in (status or {}).get("requests", ())}
    open_counts = _open_counts(operator) if histories and not told else Counter()
    rows = [_open_row(h, told.get(name), open_counts[name]) for name, h in histories.items()]
    rows += [_submitted_row(s) for s in submitted if s.request not in histories]
    notes = list(_notes(operator))
    if as_json:
        say_json({"requests": rows, "notes": notes, "daemon_answers": status is not None})
        return Exit.DONE
    for row in rows:
        say(_open_line(row, told.get(row["id"])))
    if not rows:
        say("No request is open.")
    for note in notes:
        say(note)
    return Exit.DONE


def _open_counts(operator: OperatorPort) -> Counter[RequestId]:
    """Count the records of each request: the long way, where no daemon answers."""
    specs = operator.read_specs(operator.reassigned_partitions())
    return Counter(spec.request for spec in specs.values() if isinstance(spec, ReassignmentSpec))


def _open_row(
    history: RequestHistory, told: Mapping[str, Any] | None, still_open: int
) -> dict[str, Any]:
    counts: dict[str, int] = {"total": history.total, "refused": len(history.refused)}
    if told is not None:
        counts = dict(told["partitions"])
    else:
        fates = Counter(e.fate for e in history.endings)
        ended = len(history.refused) + fates.total()
        counts["open"] = still_open
        counts["done"] = max(0, history.accepted + len(history.refused) - still_open - ended)
        counts |= {fate.value: number for fate, number in fates.items()}
    submitted = [p.created_ms for p in history.parts.values()]
    return {
        "id": history.request,
        "state": "open" if told is None else told["state"],
        "submitted_ms": min(submitted, default=0),
        "partitions": counts,
        **_wishes(history.options),
    }


def _submitted_row(submission: Submission) -> dict[str, Any]:
    return {
        "id": submission.request,
        "state": "not_accepted",
        "znode": submission.name,
        "submitted_ms": submission.created_ms,
        "total": len(submission.entries) + len(submission.refused),
        "unreadable": submission.unreadable,
        **_wishes(submission.options),
    }


def _wishes(options: RequestOptions) -> dict[str, Any]:
    return {
        "reason": options.reason,
        "requested_by": options.requested_by,
        "priority": options.priority,
    }


def _open_line(row: Mapping[str, Any], told: Mapping[str, Any] | None) -> str:
    who = f", by {row['requested_by']}" if row["requested_by"] else ""
    why = f": {row['reason']}" if row["reason"] else ""
    since = f", submitted {show_time(row['submitted_ms'])}" if row["submitted_ms"] else ""
    if row["state"] == "not_accepted":
        what = row["unreadable"] or f"{row['total']} partitions"
        return f"request {row['id']}: not accepted yet, {what}{since}{who}{why}"
    if told is not None:
        return f"{request_line(told)}{since}{who}{why}"
    counts = row["partitions"]
    return (
        f"request {row['id']}: {counts['done']} of {counts['total']} done, "
        f"{counts['open']} open, {counts['refused']} refused{since}{who}{why}"
    )


def _notes(operator: OperatorPort) -> Iterator[str]:
    """Say what else is asked for."""
    switch = operator.read_kill_switch()
    if switch is not None:
        why = f": {switch.reason}" if switch.reason else ""
        yield f"new reassignments are disabled since {show_time(switch.since_ms)}{why}"
    yield from pause_lines(operator.read_controls().pauses)
    cancellation = operator.read_cancellation()
    if cancellation is not None:
        yield f"a cancellation is being carried out: {cancellation.request}"
    queue = operator.read_queue()
    if queue is not None:
        yield f"{len(queue.entries)} partitions wait in the queue"


# --- what ended ----------------------------------------------------------------------------------


def list_ended(operator: OperatorPort, *, newest: int, as_json: bool) -> Exit:
    """Print how the last requests ended, the newest first."""
    ended = [name for name, has_ended in operator.request_ids().items() if has_ended]
    summaries = [h.summary for h in operator.read_history(ended).values() if h.summary is not None]
    # Those of an older format have no time; what is read is in the order of its creation.
    summaries.reverse()
    shown = sorted(summaries, key=lambda s: s.ended_ms, reverse=True)[:newest]
    if as_json:
        say_json({"requests": [summary_document(s) for s in shown]})
        return Exit.DONE
    for summary in shown:
        say(summary_line(summary))
    if not shown:
        say("Nothing that ended is remembered.")
    return Exit.DONE


def summary_line(summary: Summary) -> str:
    """Word how a request ended."""
    when = f"{show_time(summary.ended_ms)}  " if summary.ended_ms else ""
    refused = len(summary.refused) + summary.refused_left_out
    parts = [f"{summary.done} of {summary.total} done"]
    parts += [f"{refused} refused"] if refused else []
    parts += [f"{n} {fate.value.replace('_', ' ')}" for fate, n in summary.fates.items() if n]
    if summary.moved_bytes is not None:
        parts.append(f"{show_bytes(summary.moved_bytes)} moved")
    by = f", by {summary.requested_by}" if summary.requested_by else ""
    why = f": {summary.reason}" if summary.reason else ""
    return f"{when}{summary.request} ({summary.kind}): {', '.join(parts)}{by}{why}"


def summary_document(summary: Summary) -> dict[str, Any]:
    """Return how a request ended, for a program."""
    return {
        "id": summary.request,
        "kind": summary.kind,
        "total": summary.total,
        "done": summary.done,
        "refused": len(summary.refused) + summary.refused_left_out,
        **{fate.value: number for fate, number in summary.fates.items()},
        "reason": summary.reason,
        "requested_by": summary.requested_by,
        "submitted_ms": summary.submitted_ms,
        "ended_ms": summary.ended_ms,
        "moved_bytes": summary.moved_bytes,
    }


# --- one request ---------------------------------------------------------------------------------


def list_request(operator: OperatorPort, request: RequestId, *, as_json: bool) -> Exit:
    """
    Print everything that is kept of one request.

    Raises:
        PlanInvalidError: nothing is known of it.

    """
    standing = stand_of(operator, request)
    if as_json:
        say_json(_request_document(standing))
        return Exit.DONE
    for line in _request_lines(standing):
        say(line)
    return Exit.DONE


def _request_lines(standing: RequestStanding) -> Iterator[str]:
    summary, history = standing.summary, standing.history
    if summary is not None:
        yield summary_line(summary)
    else:
        yield f"request {standing.request}: {standing.sentence()}"
    yield from _wish_lines(standing.options)
    for part in () if history is None else history.parts.values():
        yield f"part {part.name}: {part.total} partitions, submitted {show_time(part.created_ms)}"
    for submission in standing.submitted:
        what = submission.unreadable or f"{len(submission.entries)} partitions"
        yield f"part {submission.name}: not accepted yet, {what}"
    yield from standing_lines(standing)
    for name, why in () if history is None else history.unreadable.items():
        yield f"{name} cannot be understood: {why}"


def _wish_lines(options: RequestOptions) -> Iterable[str]:
    wishes: dict[str, object | None] = {
        "reason": options.reason or None,
        "requested by": options.requested_by or None,
        "priority": options.priority or None,
        "step size": options.step_size,
        "throttle": None if options.throttle is None else f"{show_bytes(options.throttle)}/s",
        "window": options.window,
        "partitions in flight, at most": options.max_partitions_in_flight,
        "atomic": "yes" if options.atomic else None,
    }
    return (f"{what}: {wish}" for what, wish in wishes.items() if wish is not None)


def _request_document(standing: RequestStanding) -> dict[str, Any]:
    summary, history = standing.summary, standing.history
    options = standing.options
    return {
        "id": standing.request,
        "summary": None if summary is None else summary_document(summary),
        "partitions": standing.counts(),
        "options": {
            **_wishes(options),
            "step_size": options.step_size,
            "throttle": options.throttle,
            "window": None if options.window is None else str(options.window),
            "max_partitions_in_flight": options.max_partitions_in_flight,
            "atomic": options.atomic,
        },
        "parts": [
            {"znode": p.name, "total": p.total, "submitted_ms": p.created_ms}
            for p in (() if history is None else history.parts.values())
        ],
        "not_accepted": [s.name for s in standing.submitted],
        "entries": [entry_document(e) for e in standing.entries],
        "refused": [refusal_document(r) for r in standing.refused],
        "endings": [
            {"partition": str(e.partition), "fate": e.fate.value, "detail": e.detail}
            for e in standing.endings
        ],
    }
