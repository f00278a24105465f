"""
``list``: open requests, ended requests, or everything about one request.

Requests are read from ZooKeeper. The progress of open ones comes from the daemon if it answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import typer

from controller.actions.named_requests import request_ids
from controller.cli import options, request_state, request_tables
from controller.cli.context import context_of
from controller.cli.exits import Exit
from controller.cli.output import print_json, print_line, print_lines
from controller.cli.status_text import pause_lines, request_line
from controller.cli.tables import Screen, paragraph
from controller.core.model import ReassignmentSpec, RequestId
from controller.core.requests.outcomes import RequestHistory, Summary
from controller.core.requests.submissions import RequestOptions, Submission
from controller.units import show_bytes, show_rate, show_time
from controller.zk.operator_client import OperatorClient


def list_requests(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    request: Annotated[
        str | None, typer.Argument(metavar="REQUEST", help="Show all details of this request.")
    ] = None,
    *,
    zookeeper: options.ZookeeperOption = None,
    config: options.ConfigOption = None,
    history: Annotated[
        bool, typer.Option("--history", help="List ended requests, newest first.")
    ] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="With --history: maximum number of requests.")
    ] = 50,
    all_rows: options.AllRowsOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """
    List open or ended requests, or show all details of one request.

    Example: reassigner list --history --zookeeper zk1:2181/kafka

    Exit code: 0 listed, 1 error or unknown request.
    """
    context = context_of(ctx)
    ids = request_ids([] if request is None else [request])
    screen = context.screen(all_rows=all_rows)
    with context.connected(zookeeper, config) as operator:
        if ids:
            show_request(operator, ids[0], screen, as_json=as_json)
        elif history:
            list_ended(operator, screen, newest=limit, as_json=as_json)
        else:
            status, now_ms = context.status_of_leader(operator), context.wall_ms()
            list_open(operator, status, screen, now_ms=now_ms, as_json=as_json)
    raise typer.Exit(Exit.DONE)


# --- open requests -------------------------------------------------------------------------------


def list_open(
    operator: OperatorClient,
    status: Mapping[str, Any] | None,
    screen: Screen | None = None,
    *,
    now_ms: int = 0,
    as_json: bool,
) -> None:
    """Print the requests that have not ended."""
    submitted = operator.requests.open_submissions()
    open_ids = [
        name for name, has_ended in operator.outcomes.ended_requests().items() if not has_ended
    ]
    histories = operator.outcomes.histories(open_ids)
    known = {r["id"]: r for r in (status or {}).get("requests", ())}
    open_counts = _open_counts(operator) if histories and not known else Counter()
    rows = [_open_row(h, known.get(name), open_counts[name]) for name, h in histories.items()]
    rows += [_submitted_row(s) for s in submitted if s.request not in histories]
    notes = list(_notes(operator))
    if as_json:
        print_json({"requests": rows, "notes": notes, "daemon_answers": status is not None})
        return
    if screen is not None:
        screen.print(request_tables.open_screen(rows, known, now_ms, screen.rows_max))
    else:
        print_lines(_open_line(row, known.get(row["id"])) for row in rows)
    if not rows:
        print_line("No request is open.")
    if screen is not None:
        screen.print(*(paragraph(note, "yellow") for note in notes))
    else:
        print_lines(notes)


def _open_counts(operator: OperatorClient) -> Counter[RequestId]:
    """Count the records of each request, which is slow; needed without a daemon."""
    specs = operator.partitions.specs(operator.partitions.reassigned_partitions())
    return Counter(spec.request for spec in specs.values() if isinstance(spec, ReassignmentSpec))


def _open_row(
    history: RequestHistory, known: Mapping[str, Any] | None, still_open: int
) -> dict[str, Any]:
    counts: dict[str, int] = {"total": history.total, "refused": len(history.refused)}
    if known is not None:
        counts = dict(known["partitions"])
    else:
        kinds = Counter(e.fate for e in history.endings)
        ended = len(history.refused) + kinds.total()
        counts["open"] = still_open
        counts["done"] = max(0, history.accepted + len(history.refused) - still_open - ended)
        counts |= {kind.value: number for kind, number in kinds.items()}
    submitted = [p.created_ms for p in history.parts.values()]
    return {
        "id": history.request,
        "state": "open" if known is None else known["state"],
        "submitted_ms": min(submitted, default=0),
        "partitions": counts,
        **_origin(history.options),
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
    return {
        "reason": options.reason,
        "requested_by": options.requested_by,
        "approved": options.approved,
        "approved_by": options.approved_by,
        "priority": options.priority,
    }


def _open_line(row: Mapping[str, Any], known: Mapping[str, Any] | None) -> str:
    who = f", by {row['requested_by']}" if row["requested_by"] else ""
    why = f": {row['reason']}" if row["reason"] else ""
    since = f", submitted {show_time(row['submitted_ms'])}" if row["submitted_ms"] else ""
    if row["state"] == "not_accepted":
        what = row["unreadable"] or f"{row['total']} partitions"
        return f"request {row['id']}: not accepted yet, {what}{since}{who}{why}"
    if known is not None:
        return f"{request_line(known)}{since}{who}{why}"
    counts = row["partitions"]
    return (
        f"request {row['id']}: {counts['done']} of {counts['total']} done, "
        f"{counts['open']} open, {counts['refused']} refused{since}{who}{why}"
    )


def _notes(operator: OperatorClient) -> Iterator[str]:
    """Describe the kill switch, pauses, cancellation and queue."""
    switch = operator.requests.kill_switch()
    if switch is not None:
        why = f": {switch.reason}" if switch.reason else ""
        yield f"new reassignments are disabled since {show_time(switch.since_ms)}{why}"
    yield from pause_lines(operator.requests.controls().pauses)
    cancellation = operator.requests.cancellation()
    if cancellation is not None:
        yield f"a cancellation is in progress: {cancellation.request}"
    queue = operator.requests.queue()
    if queue is not None:
        yield f"{len(queue.entries)} partitions wait in the queue"


# --- ended requests ------------------------------------------------------------------------------


def list_ended(
    operator: OperatorClient, screen: Screen | None = None, *, newest: int, as_json: bool
) -> None:
    """Print the outcomes of the last requests, the newest first."""
    ended = [name for name, has_ended in operator.outcomes.ended_requests().items() if has_ended]
    summaries = [
        h.summary for h in operator.outcomes.histories(ended).values() if h.summary is not None
    ]
    # Outcomes of an older format have no time: they keep the order in which they were written.
    summaries.reverse()
    shown = sorted(summaries, key=lambda s: s.ended_ms, reverse=True)[:newest]
    if as_json:
        print_json({"requests": [summary_document(s) for s in shown]})
        return
    if screen is not None:
        screen.print(request_tables.ended_screen(shown, screen.rows_max))
    else:
        print_lines(map(summary_line, shown))
    if not shown:
        print_line("No request has ended yet, or its outcome is no longer kept.")


def summary_line(summary: Summary) -> str:
    """Describe the outcome of a request."""
    when = f"{show_time(summary.ended_ms)}  " if summary.ended_ms else ""
    refused = len(summary.refused) + summary.refused_left_out
    parts = [f"{summary.done} of {summary.total} done"]
    parts += [f"{refused} refused"] if refused else []
    parts += [f"{n} {kind.value.replace('_', ' ')}" for kind, n in summary.fates.items() if n]
    if summary.moved_bytes is not None:
        parts.append(f"{show_bytes(summary.moved_bytes)} moved")
    by = f", by {summary.requested_by}" if summary.requested_by else ""
    why = f": {summary.reason}" if summary.reason else ""
    return f"{when}{summary.request} ({summary.kind}): {', '.join(parts)}{by}{why}"


def summary_document(summary: Summary) -> dict[str, Any]:
    """Return the outcome of a request for ``--json``."""
    return {
        "id": summary.request,
        "kind": summary.kind,
        "total": summary.total,
        "done": summary.done,
        "refused": len(summary.refused) + summary.refused_left_out,
        **{kind.value: number for kind, number in summary.fates.items()},
        "reason": summary.reason,
        "requested_by": summary.requested_by,
        "approved": summary.approved,
        "approved_by": summary.approved_by,
        "submitted_ms": summary.submitted_ms,
        "ended_ms": summary.ended_ms,
        "moved_bytes": summary.moved_bytes,
    }


# --- one request ---------------------------------------------------------------------------------


def show_request(
    operator: OperatorClient, request: RequestId, screen: Screen | None = None, *, as_json: bool
) -> None:
    """
    Print everything about one request.

    Raises:
        InvalidInputError: the request is not known.

    """
    state = request_state.read_request(operator, request)
    if as_json:
        print_json(_request_document(state))
        return
    headline = f"request {state.request}: {state.sentence()}"
    if state.summary is not None:
        headline = summary_line(state.summary)
    if screen is not None:
        rows_max, details = screen.rows_max, _detail_lines(state)
        screen.print(*request_tables.request_screen(state, headline, details, rows_max))
    else:
        problems = request_state.problem_lines(state)
        print_lines((headline, *_detail_lines(state), *problems))


def _detail_lines(state: request_state.RequestState) -> Iterator[str]:
    history = state.history
    yield from _option_lines(state.options)
    for part in () if history is None else history.parts.values():
        yield f"part {part.name}: {part.total} partitions, submitted {show_time(part.created_ms)}"
    for submission in state.submitted:
        what = submission.unreadable or f"{len(submission.entries)} partitions"
        yield f"part {submission.name}: not accepted yet, {what}"
    for name, why in () if history is None else history.unreadable.items():
        yield f"{name} cannot be decoded: {why}"


def _option_lines(options: RequestOptions) -> Iterable[str]:
    values: dict[str, object | None] = {
        "reason": options.reason or None,
        "requested by": options.requested_by or None,
        "approved": options.approved or None,
        "approved by": options.approved_by or None,
        "priority": options.priority or None,
        "step size": options.step_size,
        "throttle": None if options.throttle is None else show_rate(options.throttle),
        "log dirs throttle": None
        if options.log_dirs_throttle is None
        else show_rate(options.log_dirs_throttle),
        "window": options.window,
        "max partitions in flight": options.max_partitions_in_flight,
        "atomic": "yes" if options.atomic else None,
    }
    return (f"{name}: {value}" for name, value in values.items() if value is not None)


def _request_document(state: request_state.RequestState) -> dict[str, Any]:
    summary, history, options = state.summary, state.history, state.options
    return {
        "id": state.request,
        "summary": None if summary is None else summary_document(summary),
        "partitions": state.counts(),
        "options": {
            **_origin(options),
            "step_size": options.step_size,
            "throttle": options.throttle,
            "log_dirs_throttle": options.log_dirs_throttle,
            "window": None if options.window is None else str(options.window),
            "max_partitions_in_flight": options.max_partitions_in_flight,
            "atomic": options.atomic,
        },
        "parts": [
            {"znode": p.name, "total": p.total, "submitted_ms": p.created_ms}
            for p in (() if history is None else history.parts.values())
        ],
        "not_accepted": [s.name for s in state.submitted],
        "entries": [e.document() for e in state.entries],
        "refused": [request_state.refusal_document(r) for r in state.refused],
        "endings": request_state.outcome_documents(state.outcomes),
    }
