"""
The daemon's status in words: requests, partitions, brokers, pauses, bytes and times.

Rates, shares and estimates are those of the status; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from textwrap import shorten
from typing import Any, Final

from controller.core.model import BrokerId, RequestId, count_text, request_text
from controller.core.pacing import controls
from controller.core.pacing.controls import Drain, Evacuation, Pause, Pauses
from controller.core.reason_kinds import COPYING, PATIENT
from controller.doctor.findings import CLIENTS_WAIT_NOW, NOTHING, old_copies_text
from controller.previews.holds import drain_words, evacuation_words, left_words, pause_lines
from controller.telemetry.advice import (
    OPEN_STATES,
    burst_words,
    count_words,
    effect_words,
    governor_lines,
    phase_of,
    rolls_back,
    state_words,
    throttle_words,
    wait_word,
)
from controller.units import ids, show_bytes, show_estimate, show_rate, show_time

MILESTONES: Final = 10
"""Progress of a request's bytes is printed as often as this."""
ORPHANS_SHOWN: Final = 5
PURPOSE_MAX: Final = 80
"""Characters of the reason of a request, in a line about its progress."""


def status_lines(status: Mapping[str, Any], *, verbose: bool = False) -> Iterator[str]:
    """Describe a status, one fact per line."""
    tenure = status["tenure"]
    yield f"{status['role']}, engine {status['engine']}, " + (
        f"controller since {show_time(tenure['since'])} at epoch {tenure['epoch']}"
        if tenure["held"]
        else "not the controller now"
    )
    yield from standby_lines(status)
    yield from problem_lines(status)
    yield from held_lines(status)
    yield from map(request_line, status["requests"])
    for partition in status["in_flight"]:
        yield partition_line(partition, verbose=verbose)
        yield from (f"  {line}" for line in map(copy_words, partition.get("copies") or ()))
    yield from _waiting_lines(status)
    yield from (line for _, line in broker_lines(status))
    unanswered = unanswered_line(status)
    if unanswered:
        yield unanswered
    yield from blocked_lines(status)
    yield from orphan_lines(status)
    yield from throttle_line(status)
    yield work_line(status)


def _waiting_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Name the first of the partitions that wait for each reason, and count the others."""
    named = status.get("waiting", ())
    yield from map(waiting_line, named)
    more = status["partitions"]["waiting"] - len(named)
    if named and more > 0:
        yield f"and {count_text(more, 'more partition')} waiting"


def standby_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Say where the leader is if the daemon does not lead: what it knows of the work may be old."""
    if status["role"] == "standby" and "leader" in status:
        leader = status["leader"]
        yield f"the leader is {leader}" if leader else "no daemon leads now"


def throttle_line(status: Mapping[str, Any]) -> Iterator[str]:
    """Describe the throttles in force, if there are any."""
    words = throttle_words(status)
    if words:
        yield "; ".join(filter(None, (f"throttle in force: {words}", burst_words(status))))
    yield from governor_lines(status)


def problem_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Describe what keeps the daemon from its work."""
    for reason in status.get("refused_because") or ():
        yield f"cannot be the controller: {reason}"
    if status.get("unready_because"):
        yield f"not ready: {status['unready_because']}"
    replicas = {load["broker"]: load.get("replicas") for load in status.get("broker_loads") or ()}
    for broker in status.get("dead_brokers") or ():
        known = replicas.get(broker)
        has = f", with {known} replicas" if known else ""
        yield f"broker {broker} is dead: it is not registered{has}"
    for broker, why in status.get("unreachable_brokers", {}).items():
        yield f"broker {broker} cannot be reached: {why}"
    shrunk = status.get("strain", {}).get("under_min_isr", {}).get("detail")
    if shrunk:
        yield shrunk


def unanswered_line(status: Mapping[str, Any]) -> str:
    """Count the partitions for which the controller has not answered yet; empty without any."""
    number = (status.get("orders") or {}).get("unanswered")
    if not number:
        return ""
    return f"the cluster's controller has not answered for {count_text(number, 'partition')}"


def blocked_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Count the partitions that wait, are held up, blocked or stalled, by reason."""
    in_flight = status.get("blocked_in_flight") or {}
    found: dict[str, dict[str, int]] = {
        "in flight, held up": {},
        "waiting, by reason": {},
        "blocked": {},
        "stalled": dict(status.get("stalled") or {}),
    }
    for by, count in (status.get("blocked") or {}).items():
        if by in PATIENT:
            begun = min(in_flight.get(by, 0), count)
            found["in flight, held up"][by] = begun
            found["waiting, by reason"][by] = count - begun
        else:
            found["blocked"][by] = count
    for title, counts in found.items():
        words = ", ".join(f"{by} {count}" for by, count in counts.items() if count)
        if words:
            yield f"{title}: {words}"


def orphan_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Name the logs that may be left on each broker, and what to do if that is anything."""
    orphans = status.get("orphans", ())
    found: dict[tuple[BrokerId, str], list[str]] = {}
    for orphan in orphans:
        alike = orphan["broker"], orphan["what_to_do"]
        found.setdefault(alike, []).append(name_of(orphan))
    named = list(islice(found.items(), ORPHANS_SHOWN))
    for (broker, advice), names in named:
        action, _, then = advice.partition(f"{NOTHING}: ")
        yield old_copies_text(broker, names) + (
            f"; what to do: {action}" if action else f": {then}"
        )
    more = status.get("orphans_total", len(orphans)) - sum(len(names) for _, names in named)
    if more > 0:
        copies = count_text(more, "more old copy", "more old copies")
        yield f"and {copies}: reassigner doctor --all-rows"


def work_line(status: Mapping[str, Any]) -> str:
    """Summarize the work."""
    partitions = status["partitions"]
    undecided = partitions.get("undecided", 0)
    more = f", {undecided} not accepted yet" if undecided else ""
    between = partitions.get("between_steps", 0)
    details = ((partitions.get(COPYING, 0), COPYING), (between, "between two steps"))
    shown = ", ".join(f"{number} {what}" for number, what in details if number)
    total = pace_words(status["total"]) if "total" in status and is_busy(status) else ""
    return (
        f"{count_text(partitions['in_flight'], 'partition')} in flight"
        f"{f' ({shown})' if shown else ''}, "
        f"{partitions['waiting']} waiting{more}{f'; {total}' if total else ''}"
    )


def is_busy(status: Mapping[str, Any]) -> bool:
    """Return whether any partition is in flight, pending or not accepted yet."""
    partitions = status["partitions"]
    return any(partitions.get(kind, 0) for kind in ("in_flight", "waiting", "undecided"))


def status_about(
    status: Mapping[str, Any] | None, request: RequestId | None
) -> Mapping[str, Any] | None:
    """Return the part of a status that concerns one request."""
    if status is None:
        return None
    own = {
        key: [p for p in status.get(key, ()) if p.get("request") == request]
        for key in ("in_flight", "waiting")
    }
    return {**status, **own, "requests": [r for r in status["requests"] if r["id"] == request]}


# --- requests and partitions ---------------------------------------------------------------------


def request_line(request: Mapping[str, Any], *, names_purpose: bool = True) -> str:
    """Describe a request; ``names_purpose``: and what it is for."""
    counts, is_open = request["partitions"], request["state"] in OPEN_STATES
    why = f" ({request['reason']})" if request.get("reason") else ""
    words = list(count_words(counts))
    if is_open:
        words[1:1] = [f"{counts['in_flight']} in flight", f"{counts['waiting']} waiting"]
    said = ", ".join((state_words(request), *words, *effect_words(request)))
    amounts = amount_words(request) if is_open else ""
    purpose = request.get("asked_for") if names_purpose else None
    what = f" ({shorten(purpose, PURPOSE_MAX, placeholder=' ...')})" if purpose else ""
    line = f"{request_text(request['id'])}{what}: {said}{why}"
    return f"{line}; {amounts}" if amounts else line


def name_of(partition: Mapping[str, Any]) -> str:
    """Return the name of a partition."""
    return f"{partition['topic']}-{partition['partition']}"


def phase_text(partition: Mapping[str, Any], *, verbose: bool = False) -> str:
    """Return the phase of a partition in words, and its name in the log and in Kafka."""
    words, name = phase_of(partition), partition["phase"]
    return f"{words} ({name})" if verbose and words != name else words


def partition_line(partition: Mapping[str, Any], *, verbose: bool = False) -> str:
    """Describe a partition in flight."""
    state = partition_state(partition)
    waits = f", {state}" if state else ""
    stalled = ", STALLED" if partition.get("stalled") else ""
    return (
        f"{name_of(partition)}: {phase_text(partition, verbose=verbose)}, step "
        f"{partition['step']} of {partition['steps']}, replicas {ids(partition['replicas'])} -> "
        f"{ids(partition['target_replicas'])}, isr {ids(partition['isr'])}, leader "
        f"{partition['leader']}{waits}{stalled}"
    )


def waiting_line(partition: Mapping[str, Any]) -> str:
    """Describe a pending partition, one of each reason."""
    return f"{name_of(partition)}: {wait_words(partition['blocked_on'])}"


def partition_state(partition: Mapping[str, Any]) -> str:
    """Describe why a partition in flight is blocked, and that it copies; empty for neither."""
    blocked = partition["blocked_on"]
    if blocked is not None:
        beside = beside_words(partition)
        return wait_words(blocked, begun=True) + (f"; {beside}" if beside else "")
    if partition.get("state") != COPYING:
        return ""
    return f"{copying_words(partition)} (since {show_time(partition['phase_since'])})"


def copying_words(partition: Mapping[str, Any]) -> str:
    """Name the brokers to which a partition copies."""
    isr = partition["isr"]
    names = ids(r for r in partition["adding_replicas"] if r not in isr)
    return f"{COPYING} to {names}" if names else COPYING


def beside_words(partition: Mapping[str, Any]) -> str:
    """Name the brokers to which a blocked partition copies all the same; empty without any."""
    running = partition.get("copying_to") or ()
    return f"meanwhile {COPYING} to {ids(running)}" if running else ""


def wait_words(blocked: Mapping[str, Any], *, begun: bool = False) -> str:
    """Describe why a partition does not continue, or begin, and since when."""
    return f"{wait_word(blocked['by'], begun=begun)}: {reason_words(blocked)}"


def reason_words(blocked: Mapping[str, Any]) -> str:
    """Return a blocked reason, with its name and its start."""
    since = blocked.get("since")
    more = f", since {show_time(since)}" if since else ""
    return f"{blocked['detail']} ({blocked['by']}{more})"


# --- pauses and the kill switch ------------------------------------------------------------------


def held_lines(status: Mapping[str, Any], *, counts: bool = True) -> Iterator[str]:
    """
    Describe the pauses and the kill switch of a status, and what a tenure means for clients.

    Without ``counts``, not how many steps of what is paused are still in flight.
    """
    known = status.get("controls") or {}
    paused = known.get("paused") or {}
    found = Pauses(
        _pause(paused["everything"]) if paused.get("everything") else None,
        {name: _pause(about) for name, about in (paused.get("requests") or {}).items()},
        {broker: _pause(about) for broker, about in (paused.get("brokers") or {}).items()},
        controls.Quiesce(**paused["quiesce"]) if paused.get("quiesce") else None,
    )
    yield from pause_lines(found, status if counts else None)
    if known.get("disabled"):
        yield "new reassignments are disabled; `reassigner enable` allows them again"
    yield from drain_lines(status)
    yield from evacuation_lines(status)
    if status["tenure"]["held"] and status.get("clients_wait"):
        yield CLIENTS_WAIT_NOW


def drain_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Describe the drained brokers, with what is left on each."""
    for found in status.get("drains", ()):
        about = Drain(found["reason"], found["by"], found["since_ms"])
        moving = found.get("reassignments", 0)
        left = left_words(found["replicas"] - moving, moving, is_live=found["live"])
        hold = f" ({found['hold']})" if found["hold"] else ""
        yield f"broker {found['broker']} {drain_words(about, found['replicas'])}; {left}{hold}"


def evacuation_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Describe the brokers that are evacuated from leaderships."""
    for found in status.get("evacuations", ()):
        about = Evacuation(found["reason"], found["by"], found["since_ms"], found["returning"])
        yield f"broker {found['broker']}: {evacuation_words(about, found.get('verdict'))}"


def _pause(about: Mapping[str, Any]) -> Pause:
    return Pause(about["reason"], about["by"], about["since_ms"])


# --- bytes, rates and estimates ------------------------------------------------------------------


def amount_words(request: Mapping[str, Any]) -> str:
    """Describe copied bytes, rate and estimate of a request."""
    volume, since = volume_of(request), request.get("bytes_since")
    parts = [
        "{} of {} copied".format(*map(show_bytes, volume)) if volume is not None else "",
        f"since {show_time(since)}, when this daemon took over" if since else "",
        pace_words(request),
    ]
    return ", ".join(filter(None, parts))


def pace_words(document: Mapping[str, Any]) -> str:
    """Describe rate and estimate of a copy, a partition, a request or of everything."""
    left = show_estimate(document.get("eta_s"), document.get("no_estimate"))
    if left and document.get("eta_s") is not None:
        left += " left"
    return ", ".join(filter(None, (rate_words(document), left)))


def rate_words(document: Mapping[str, Any], key: str = "bytes_per_s") -> str:
    """Describe a rate; empty if the daemon, of an earlier release, does not report it."""
    rate = document.get(key)
    if document.get("rate_estimated"):  # of a copy that is not measured yet
        return f"about {show_rate(rate)}"
    return show_rate(rate) if rate is not None else "rate unknown" if key in document else ""


def copy_words(copy: Mapping[str, Any]) -> str:
    """Describe a copy."""
    held, total = copy.get("bytes"), copy.get("total_bytes")
    amount = "bytes unknown" if held is None else f"{show_bytes(held)} copied"
    if held is not None and total is not None:
        amount = f"{show_bytes(held)} of {show_bytes(total)} copied"
    found = " (found when this daemon took over)" if copy.get("inherited") else ""
    return f"broker {copy['from']} to {copy['broker']}: {amount}, {pace_words(copy)}{found}"


def milestone(request: Mapping[str, Any]) -> int:
    """Return a number that changes ``MILESTONES`` times while a request's bytes are copied."""
    return int((request.get("share") or 0.0) * MILESTONES)


def volume_of(request: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the copied bytes of a request and all that it copies, None if unknown or void."""
    found = request.get("bytes")
    if not isinstance(found, Mapping) or rolls_back(request):
        return None
    moved, total = found.get("moved"), found.get("total")
    if not isinstance(total, int) or not total:
        return None
    return (moved if isinstance(moved, int) else 0), total


def broker_lines(status: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield each broker that copies or serves copies, with its load."""
    for row in status.get("broker_loads") or ():
        incoming, outgoing = row.get("incoming") or 0, row.get("outgoing") or 0
        if incoming or outgoing:
            left = row.get("in_bytes_remaining")
            receives = _load(
                incoming,
                f"{row['incoming_blocked']} blocked" if row.get("incoming_blocked") else "",
                f"{show_bytes(left)} left" if left else "",
                rate_words(row, "in_bytes_per_s"),
            )
            serves = _load(
                outgoing,
                f"{row['outgoing_blocked']} blocked" if row.get("outgoing_blocked") else "",
                rate_words(row, "out_bytes_per_s"),
            )
            dropped = row.get("out_bytes_remaining")
            removes = f", {show_bytes(dropped)} to remove" if dropped else ""
            yield row["broker"], f"broker {row['broker']}: in {receives}, out {serves}{removes}"


def busy_brokers(status: Mapping[str, Any]) -> tuple[tuple[int, int, int], ...]:
    """Return the numbers of incoming and outgoing replicas of each broker."""
    rows: Iterable[Mapping[str, Any]] = status.get("broker_loads") or ()
    return tuple((r["broker"], r.get("incoming") or 0, r.get("outgoing") or 0) for r in rows)


def _load(replicas: int, *details: str) -> str:
    words = ", ".join(filter(None, details))
    return f"{replicas} ({words})" if words and replicas else str(replicas)
