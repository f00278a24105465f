"""How the verbs word what they found: lines for people, documents for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import typer

from controller.cli.amount_text import amount_words, broker_loads
from controller.cli.pause_text import held_lines
from controller.cli.plan_files import Entry, Standing
from controller.core.blocked_reasons import COPYING
from controller.core.model import Refusal, RequestId

NAMES_MAX: Final = 10
_UNDER_WAY: Final = frozenset({"in_flight", "waiting"})


def say(line: str) -> None:
    """Print a line of the result."""
    typer.echo(line)


def tell(line: str) -> None:
    """Print a line about the course of things, which is not part of the result."""
    typer.echo(line, err=True)


def say_json(document: object) -> None:
    """Print a document."""
    typer.echo(json.dumps(document, indent=2))


def ids(replicas: Iterable[int]) -> str:
    """Write replicas as Kafka's tools do."""
    return ",".join(map(str, replicas))


def names(entries: Iterable[Entry]) -> str:
    """List the partitions of entries, the first few by name."""
    return listed(e.partition for e in entries)


def listed(partitions: Iterable[object]) -> str:
    """List partitions or whatever else has a name, the first few."""
    found = [str(p) for p in partitions]
    more = f" and {len(found) - NAMES_MAX} more" if len(found) > NAMES_MAX else ""
    return ", ".join(found[:NAMES_MAX]) + more


def counts_line(entries: list[Entry]) -> str:
    """Sum up where a plan stands."""
    return counts_sentence(len(entries), _counted(entries))


def _counted(entries: list[Entry]) -> dict[Standing, int]:
    return {s: sum(e.standing is s for e in entries) for s in Standing}


def counts_sentence(total: int, counts: Mapping[Standing, int]) -> str:
    """Write the counts that are not zero."""
    waiting = counts[Standing.ACCEPTED]
    parts = [f"{counts[Standing.DONE]} of {total} done"]
    for number, word in (
        (counts[Standing.MOVING], "moving"),
        (waiting, "waiting"),
        (counts[Standing.ROLLING_BACK], "going back"),
        (counts[Standing.SUBMITTED], "not accepted yet"),
        (counts[Standing.REFUSED], "refused"),
        (counts[Standing.CANCELLED], "cancelled"),
        (counts[Standing.ROLLED_BACK], "rolled back"),
        (counts[Standing.SUPERSEDED], "superseded"),
    ):
        if number:
            parts.append(f"{number} {word}")
    return ", ".join(parts)


def entry_document(entry: Entry) -> dict[str, Any]:
    """Return an entry for a program."""
    assignment = entry.assignment
    return {
        "topic": entry.partition.topic,
        "partition": entry.partition.partition,
        "state": entry.standing.value,
        "target_replicas": list(entry.target),
        "replicas": None if assignment is None else list(assignment.replicas),
        "adding_replicas": [] if assignment is None else list(assignment.adding_replicas),
        "removing_replicas": [] if assignment is None else list(assignment.removing_replicas),
    }


def refusal_document(refusal: Refusal) -> dict[str, Any]:
    """Return a refusal for a program."""
    return {"entry": refusal.entry, "reason": refusal.reason.value, "detail": refusal.detail}


# --- the daemon's status -----------------------------------------------------------------------


def status_lines(status: Mapping[str, Any]) -> Iterable[str]:
    """Word a status document, one fact per line."""
    tenure = status["tenure"]
    yield f"{status['role']}, engine {status['engine']}, " + (
        f"controller since {tenure['since']} at epoch {tenure['epoch']}"
        if tenure["held"]
        else "not the controller now"
    )
    for reason in status.get("refused_because") or ():
        yield f"cannot be the controller: {reason}"
    if status.get("unready_because"):
        yield f"not ready: {status['unready_because']}"
    for broker, why in status.get("unreachable_brokers", {}).items():
        yield f"broker {broker} cannot be reached: {why}"
    yield from held_lines(status)
    for request in status["requests"]:
        yield request_line(request)
    for partition in status["in_flight"]:
        yield partition_line(partition)
    for partition in status.get("waiting", ()):
        yield waiting_line(partition)
    for load in broker_loads(status):
        yield str(load)
    unanswered = (status.get("orders") or {}).get("unanswered")
    if unanswered:
        yield f"{unanswered} partitions the cluster's controller was told of and has not answered"
    yield from blocked_lines(status)
    yield work_line(status)


def blocked_lines(status: Mapping[str, Any]) -> Iterable[str]:
    """Sum up what waits, by what for."""
    for title in ("blocked", "stalled"):
        counts = status.get(title)
        if counts:
            yield f"{title}: " + ", ".join(f"{by} {count}" for by, count in counts.items())


def work_line(status: Mapping[str, Any]) -> str:
    """Sum up the work."""
    partitions = status["partitions"]
    undecided = partitions.get("undecided", 0)
    more = f", {undecided} not accepted yet" if undecided else ""
    copying = partitions.get(COPYING, 0)
    copies = f" ({copying} copying)" if copying else ""
    return (
        f"{partitions['in_flight']} partitions in flight{copies}, "
        f"{partitions['waiting']} waiting{more}"
    )


def request_line(request: Mapping[str, Any]) -> str:
    """Word one request."""
    counts = request["partitions"]
    why = f" ({request['reason']})" if request.get("reason") else ""
    refused = f", {counts['refused']} refused" if counts["refused"] else ""
    amounts = amount_words(request) if request["state"] in _UNDER_WAY else ""
    if not counts["total"]:  # a cancellation counts with what it cancels
        return f"request {request['id']}: {request['state']}{why}"
    return (
        f"request {request['id']}: {request['state']}, {counts['done']} of {counts['total']} done, "
        f"{counts['in_flight']} in flight, {counts['waiting']} waiting{refused}{why}"
        f"{f'; {amounts}' if amounts else ''}"
    )


def partition_line(partition: Mapping[str, Any]) -> str:
    """Word one partition in flight."""
    state = state_words(partition)
    waits = f", {state}" if state else ""
    stalled = ", STALLED" if partition.get("stalled") else ""
    return (
        f"{partition['topic']}-{partition['partition']}: {partition['phase']}, step "
        f"{partition['step']} of {partition['steps']}, replicas {ids(partition['replicas'])} -> "
        f"{ids(partition['target_replicas'])}, isr {ids(partition['isr'])}, leader "
        f"{partition['leader']}{waits}{stalled}"
    )


def status_about(
    status: Mapping[str, Any] | None, request: RequestId | None
) -> Mapping[str, Any] | None:
    """Return what a status tells of one request: itself, and its partitions."""
    if status is None:
        return None
    own = {
        key: [p for p in status.get(key, ()) if p.get("request") == request]
        for key in ("in_flight", "waiting")
    }
    return {**status, **own, "requests": [r for r in status["requests"] if r["id"] == request]}


def waiting_line(partition: Mapping[str, Any]) -> str:
    """Word one of the few that stand for all that wait for the same."""
    name = f"{partition['topic']}-{partition['partition']}"
    return f"{name}: waiting, waits for {wait_words(partition['blocked_on'])}"


def state_words(partition: Mapping[str, Any]) -> str:
    """Word what a partition in flight waits for, or that it copies; empty: neither."""
    blocked = partition["blocked_on"]
    if blocked is not None:
        return f"waits for {wait_words(blocked)}"
    if partition.get("state") != COPYING:
        return ""
    isr = partition["isr"]
    copies = [r for r in partition["adding_replicas"] if r not in isr]
    return f"copying to {ids(copies)} (since {partition['phase_since']})"


def wait_words(blocked: Mapping[str, Any]) -> str:
    """Word what a partition waits for, and since when."""
    since = blocked.get("since")
    return f"{blocked['by']}: {blocked['detail']}" + (f" (since {since})" if since else "")


def is_busy(status: Mapping[str, Any]) -> bool:
    """Whether anything is in flight or waits."""
    partitions = status["partitions"]
    return any(partitions.get(kind, 0) for kind in ("in_flight", "waiting", "undecided"))
