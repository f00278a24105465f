"""What commands and pages say of phases, states, reasons to wait and throttles: one table each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from controller.core.model import BlockedBy, count_text
from controller.core.reason_kinds import BLOCKING
from controller.units import ids, show_duration, show_latency, show_rate, show_time


class StateWords(NamedTuple):
    """A state of a request in words, and its tone: the class of a pill on the page."""

    words: str
    tone: str


REQUEST_STATES: Final[Mapping[str, StateWords]] = {
    "blocked": StateWords("blocked", "bad"),
    "held": StateWords("held", "wait"),
    "in_flight": StateWords("in flight", "busy"),
    "waiting": StateWords("waiting", "wait"),
    "undoing": StateWords("being undone", "wait"),
    "undone": StateWords("undone", "wait"),
    "cancelled": StateWords("cancelled", "wait"),
    "refused": StateWords("refused", "bad"),
    "superseded": StateWords("superseded", "wait"),
    "standing": StateWords("standing", "done"),
    "done": StateWords("done", "done"),
}
"""The states of a request, the worst first."""
_PARTIAL: Final = frozenset({"undoing", "undone", "cancelled", "refused", "superseded"})
"""The states in which some entries may be done."""
HELD_WORDS: Final[Mapping[str, str]] = {
    BlockedBy.PAUSED: "paused",
    BlockedBy.WINDOW: "waiting for the window",
    BlockedBy.KILL_SWITCH: "disabled",
    BlockedBy.INCOMPLETE: "incomplete",
}
"""What operators read of a held request, by the reason."""
OPEN_STATES: Final = frozenset({"blocked", "held", "in_flight", "waiting"})
"""The states of a request of which something is open."""
PHASE_WORDS: Final[Mapping[str, str]] = {
    "pending": "waiting",
    "ordered": "requested from the controller",
    "A1": "taking up a step",
    "A2": "starting a step",
    "A2-syncing": "copying",
    "B3": "excluding the old copy",
    "B5": "deleting the old copy",
    "placing": "moving to its directory",
    "ended": "done",
}
"""What operators read of a phase, by its label."""
PHASE_MEANINGS: Final[Mapping[str, str]] = {
    "pending": "accepted, with no step in flight; or between two steps",
    "ordered": "delegated engine: the step was sent to the cluster's controller",
    "A1": "a step found in the topic znode: this tenure has to raise the leader epoch",
    "A2": "topic znode and partition state written, LeaderAndIsr and UpdateMetadata sent",
    "A2-syncing": "the added replicas copy, until the ISR contains the step's target",
    "B3": "one write excluded the dropped replicas from the ISR and moved the leader",
    "B5": "StopReplica sent to the dropped replicas: to stop, then to delete",
    "placing": "the target is reached; replicas are moved to the log directories that the entry "
    "names",
    "ended": "B6 to B8: the topic znode is final, the record deleted, UpdateMetadata sent",
}
"""By the label of the phase."""
_IF_IT_STAYS: Final = "; if the replica stays, "
_TOLERANCE: Final = (
    f"{_IF_IT_STAYS}`reassigner limits --request ID --tolerate-lagging BROKER` continues without "
    "it (native engine)"
)
ADVICE: Final[Mapping[BlockedBy, str]] = {
    BlockedBy.CONFIG_UNKNOWN: "make a live broker reachable and allow the daemon DescribeConfigs "
    "on the topic; it asks again every few seconds",
    BlockedBy.STATE_UNKNOWN: "nothing while the znode is being read; repair a znode that cannot "
    "be decoded by hand (`reassigner doctor` names it)",
    BlockedBy.NO_LEADER: "start a broker of the ISR again; if its records are expendable, set "
    "unclean.leader.election.enable=true on the topic",
    BlockedBy.REPLICA_NOT_IN_ISR: "check that broker's log, disk and network, and whether a "
    f"replication throttle is lower than the produce rate{_TOLERANCE}",
    BlockedBy.BROKER_DEAD: "start the broker again or repair its disk; or cancel it with "
    "`reassigner cancel --partition TOPIC-N`, or submit a plan with another target for this "
    "partition"
    f"{_TOLERANCE}",
    BlockedBy.MIN_ISR: "repair lagging replicas, or lower the topic's min.insync.replicas; the "
    "daemon never shrinks the ISR below it",
    BlockedBy.LIMIT: "nothing: other partitions come first; raise max_partitions_in_flight, "
    "max_incoming_per_broker or max_outgoing_per_broker if brokers have capacity",
    BlockedBy.LEADER_MOVES: "nothing: leader moves per broker and second are limited; raise "
    "max_leader_moves_per_broker_per_second if clients tolerate more",
    BlockedBy.LEADER_ACK: "nothing: the daemon repeats the request every half minute; if the "
    "reason stays, check that broker's log and the network between it and the daemon",
    BlockedBy.STOP_REPLICA_ACK: "nothing: a deletion without confirmation becomes an orphan "
    "record, and the step continues",
    BlockedBy.TOPIC_DELETION: "nothing: the daemon gives the role back so that a broker deletes "
    "the topic; after half a minute it ignores a deletion that cannot end",
    BlockedBy.DRAINING: "nothing: the daemon gives the role back; the next leader continues",
    BlockedBy.KILL_SWITCH: "allow first steps again with `reassigner enable`, or cancel it with "
    "`reassigner cancel ID`",
    BlockedBy.PAUSED: "`reassigner resume`, for everything or for the named request or broker",
    BlockedBy.WINDOW: "nothing: work continues when the window opens; change it with "
    "`reassigner limits --window`",
    BlockedBy.THROTTLE: "nothing while the throttle is being set; otherwise allow the daemon to "
    "write /config in ZooKeeper, or remove the throttle with `reassigner throttle none --request "
    "ID`",
    BlockedBy.DISK_FULL: "free space there or enlarge the volume, lower min_free, or "
    "submit a plan with another target; copies that end and drops may free it as well",
    BlockedBy.DISK_UNKNOWN: "nothing while brokers are queried; if it stays, allow the daemon "
    "DescribeLogDirs (Describe on the cluster) and make the named broker reachable",
    BlockedBy.LOG_DIR: "nothing while brokers answer or copy; otherwise start the named broker or "
    "repair its directory, allow the daemon Alter on the cluster, or submit a plan with another "
    "directory",
    BlockedBy.CLUSTER_HEALTH: "start the brokers of the named partitions' dead replicas, or submit "
    "a plan that replaces them; live ones only have to catch up. `reassigner limits "
    "--under-min-isr warn` begins the step all the same",
    BlockedBy.INCOMPLETE: "submit the missing parts, or cancel the others with `reassigner cancel "
    "ID`",
    BlockedBy.CONTROLLER_ROLE: "remove the cause that the reason names; without one, nothing: the "
    "daemon claims the role as soon as it can",
    BlockedBy.CONTROLLER_ANSWER: "nothing while the controller works on it; after a refusal, which "
    "the reason quotes, the daemon tries again every few seconds",
    BlockedBy.WRITE_REFUSED: "allow the daemon to write the named znode; it tries again every 5 s",
    BlockedBy.FOREIGN_MOVES: "wait for their end, cancel them by name with `reassigner cancel`, or "
    "set foreign_moves to beside or adopt",
    BlockedBy.NO_TARGET: "start more brokers, reduce the replication factor, or submit a plan for "
    "this partition, by what the reason says; `reassigner drain --stop` ends the drain",
}


def phase_words(phase: str) -> str:
    """Return a phase in words; one of another release as it is."""
    return PHASE_WORDS.get(phase, phase)


def phase_of(partition: Mapping[str, Any]) -> str:
    """Return the phase of a partition in words; between two steps it is still in flight."""
    is_between = partition["phase"] == "pending" and partition.get("begun")
    return "between two steps" if is_between else phase_words(partition["phase"])


def wait_word(by: str, *, begun: bool) -> str:
    """
    Return what a partition is called that has a reason: blocked, held up or waiting.

    It is blocked where an operator or a broker has to act, in any phase. Otherwise it is held up in
    flight, and waiting before its first step.
    """
    try:
        is_blocking = BlockedBy(by) in BLOCKING
    except ValueError:  # of another release
        is_blocking = True
    return "blocked" if is_blocking else "held up" if begun else "waiting"


def tone_of(state: str) -> str:
    """Return the tone of a state of a request; empty for one of another release."""
    known = REQUEST_STATES.get(state)
    return "" if known is None else known.tone


def state_words(request: Mapping[str, Any]) -> str:
    """
    Return the state of a request in words: ``blocked: 2 of 7``, ``undone in part``.

    ``request`` has a ``state``, and the number of its entries that are ``done``: among its
    ``partitions``, or of one in the journal beside the state.
    """
    state, counts = request["state"], request.get("partitions", request)
    words = REQUEST_STATES[state].words if state in REQUEST_STATES else state.replace("_", " ")
    if state not in OPEN_STATES:
        is_partial = bool(counts.get("done")) and state in _PARTIAL
        return f"{words} in part" if is_partial else words
    if state in {"in_flight", "waiting"} and rolls_back(request):
        return "being undone" if request.get("being_undone") else "rolling back"
    wait = next(iter(request.get("waits") or ()), None)
    if wait is None or state not in {"blocked", "held"}:
        return words
    if state == "held":
        words = HELD_WORDS.get(wait["by"], words)
    still_open = counts["in_flight"] + counts["waiting"]
    number = wait["partitions"]
    return f"{words}: {number} of {still_open}" if 0 < number < still_open else words


def rolls_back(request: Mapping[str, Any]) -> bool:
    """Return whether everything that is open of a request is moved back."""
    counts: Mapping[str, int] = request.get("partitions") or {}
    still_open = counts.get("in_flight", 0) + counts.get("waiting", 0)
    return 0 < still_open == counts.get("rolling_back", 0)


def count_words(counts: Mapping[str, int]) -> Iterator[str]:
    """Describe the entries of a request by what became of them; nothing of one without any."""
    if counts["total"]:
        yield f"{counts['done']} of {counts['total']} done"
    for kind in ("undone", "refused", "cancelled", "superseded", "skipped"):
        if counts.get(kind):
            yield f"{counts[kind]} {kind}"


def effect_words(request: Mapping[str, Any]) -> Iterator[str]:
    """Say what a cancellation does to which requests, and which one undid a request."""
    for verb in ("undoes", "cancels"):
        for name, number in (request.get(verb) or {}).items():
            yield f"{verb} {name} ({count_text(number, 'partition')})"
    if request.get("undone_by"):
        is_open = request["state"] == "undoing" or request.get("being_undone")
        yield f"{'being undone' if is_open else 'undone'} by {request['undone_by']}"


def throttle_words(status: Mapping[str, Any]) -> str:
    """Describe the throttles in force by broker; empty without any."""
    by_rate: dict[int, list[int]] = {}
    for load in status.get("broker_loads") or ():
        rate = load.get("throttle_bytes_per_s")
        if rate is not None:
            by_rate.setdefault(rate, []).append(load["broker"])
    return "; ".join(
        f"{show_rate(rate)} on broker {ids(on)}" for rate, on in sorted(by_rate.items())
    )


def burst_words(status: Mapping[str, Any]) -> str:
    """Say why a rate is above the throttle in force; empty where none is."""
    for load in status.get("broker_loads") or ():
        throttle = load.get("throttle_bytes_per_s")
        rates = (load.get(key) or 0 for key in ("in_bytes_per_s", "out_bytes_per_s"))
        if throttle is not None and max(rates) > throttle:
            break
    else:
        return ""
    window = show_duration((status.get("total") or {}).get("window_s", 30))
    return (
        f"rates may be above it for a while: Kafka enforces it on average over about {QUOTA_S} s, "
        f"and they are averages of up to {window}"
    )


QUOTA_S: Final = 11
"""Kafka's defaults: 11 samples (``replication.quota.window.num``) of one second."""
GOVERNED_SHOWN_MAX: Final = 10


def governor_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Describe the rates of a throttle ``auto``, the lowest first, each with its evidence."""
    found = status.get("governor")
    if not found:
        return
    brokers = sorted(found["brokers"].items(), key=lambda named: named[1]["bytes_per_s"])
    objective = show_latency(found["objective_s"])
    yield f"throttle auto: {count_text(len(brokers), 'broker')}, objective {objective}"
    for broker, rate in brokers[:GOVERNED_SHOWN_MAX]:
        yield f"  {governed_words(broker, rate)}"
    if len(brokers) > GOVERNED_SHOWN_MAX:
        yield f"  {len(brokers) - GOVERNED_SHOWN_MAX} more brokers have a higher rate"
    if found["in_flight_max"] is not None:
        yield f"  at most {count_text(found['in_flight_max'], 'partition')} in flight"
    for signal, why in found["unmeasured"].items():
        yield f"  no reading of the {signal}: {why}"


def governed_words(broker: object, rate: Mapping[str, Any]) -> str:
    """Describe the rate of one broker under a throttle ``auto``, with its evidence."""
    p99, signal = rate.get("p99_s"), rate.get("signal")
    probed = "" if p99 is None else f"; its own probe now: up to {show_latency(p99)}"
    changed = "set" if signal is None else "lowered" if rate["is_missed"] else "raised"
    return (
        f"broker {broker}: {show_rate(rate['bytes_per_s'])}, {changed} at "
        f"{show_time(rate['since'])}: {rate['evidence']}{probed}"
    )


def advice_for(by: str, request: str = "", brokers: Sequence[int] = ()) -> str | None:
    """
    Return the remedy for a blocked reason, None for an unknown one.

    Its commands name the ``request`` and the ``brokers`` that lag, as far as they are known.
    """
    try:
        words = ADVICE[BlockedBy(by)]
    except ValueError:
        return None
    if request:
        words = words.replace(" ID ", f" {request} ").replace(" ID`", f" {request}`")
    return words.replace(" BROKER`", f" {ids(brokers)}`") if brokers else words


def remedy_for(partition: Mapping[str, Any], by: str | None = None) -> str | None:
    """
    Return the remedy for what a partition waits for, with commands for this partition.

    A reason ``by`` is given of one that waits for none, and is stalled.
    """
    if by is None:
        by = str(partition["blocked_on"]["by"])
    isr, added = partition.get("isr") or (), partition.get("adding_replicas") or ()
    target = partition.get("target_replicas") or ()
    held = partition.get("replicas") or ()
    lagging = [r for r in held if r in target and r not in isr and r not in added]
    words = advice_for(by, partition.get("request") or "", lagging if isr else ())
    if words is not None and "topic" in partition:
        name = f"{partition['topic']}-{partition['partition']}"
        words = words.replace(" TOPIC-N`", f" {name}`")
    if words is not None and held and isr and not lagging:
        # No replica that stays lags: there is nothing to tolerate.
        return words.partition(_IF_IT_STAYS)[0]
    return words
