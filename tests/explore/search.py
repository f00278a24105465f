"""
The search: breadth first over all histories of a shape, each state once for each budget.

A state is expanded again only if it is reached with a budget that no earlier one covers. The first
violation found is thus one of the shortest. Afterwards a backward search from the states in which
the plan ended shows whether any state is stuck (``stuck``).
"""

from __future__ import annotations

import gc
import re
import time
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TextIO

from tests.explore import production as p
from tests.explore.alter_requests import NOBODY
from tests.explore.canonical import ZXID_BASE
from tests.explore.endings import is_ended
from tests.explore.laws import broken
from tests.explore.operator_actions import act, choices
from tests.explore.system import (
    DELAY,
    FAULT,
    FREE,
    PARTITION,
    RECORD,
    Action,
    Budget,
    Shape,
    System,
    initial,
    submit,
)

RUNS: Final = frozenset(
    {"lane", "link", "timer", "notice", "ask", "late", "reply", "give up", "call in vain"}
)
"""Actions in which a daemon runs a cycle."""
OF_KAFKA: Final = frozenset({"elect", "pass", "call"})
"""Actions in which Kafka's controller carries out an event."""
LAGS: Final = {"slow": "shrink", "die unannounced": "shrink and die"}
"""Faults in which a follower lags, with what its leader does."""

PROGRESS_S: Final = 30.0


class Edge(NamedTuple):
    """One step of a history: an action, what struck the daemon in it, and what it cost."""

    action: Action
    fault: Action | None = None
    cost: Budget = FREE

    def __str__(self) -> str:
        text = " ".join(str(part) for part in self.action)
        return text if self.fault is None else f"{text} ({' '.join(map(str, self.fault))})"


@dataclass
class Node:
    """A state that was reached: how, with which budget, and what follows."""

    parent: int
    edge: Edge | None
    budget: Budget
    following: list[int] = field(default_factory=list)
    is_ended: bool = False


@dataclass
class Result:
    """What an exploration found."""

    shape: Shape
    nodes: list[Node]
    states: int = 0
    transitions: int = 0
    seconds: float = 0.0
    violation: str | None = None
    at: int = -1
    """The node in which it was found."""
    is_complete: bool = True
    depth: int = 0
    """The steps up to which every history was tried, where it is not complete."""

    def history(self, node: int) -> list[Edge]:
        """Return the steps that lead to a node."""
        steps: list[Edge] = []
        while node > 0:
            edge = self.nodes[node].edge
            assert edge is not None
            steps.append(edge)
            node = self.nodes[node].parent
        return steps[::-1]


def edges(system: System, budget: Budget) -> Iterator[Edge]:  # noqa: C901, PLR0912 - one rule each
    """Yield what may happen next within a budget."""
    shape = system.shape
    enabled = list(system.actors())
    ready = [a for a in enabled if a not in system.held]
    timers = list(system.timers())
    if not shape.is_bounded:
        for actor in enabled or timers:
            yield Edge(actor)
    elif ready:
        yield Edge(ready[0])
        for actor in enabled:
            if actor in system.held:
                yield Edge(actor)
        first = ready[0]
        if budget.delays and _may_be_held(shape, first):
            yield Edge(("hold", first), cost=DELAY)
            if first[0] == "lane" and not _is_served(system, first):
                yield Edge(("serve", *first[1:]), cost=DELAY)
            if first[0] == "link" and not _is_answered(system, first):
                yield Edge(("handle", *first[1:]), cost=DELAY)
            if first[0] == "ask":
                yield Edge(("admit", *first[1:]), cost=DELAY)
                yield Edge(("double", *first[1:]), cost=DELAY)
            if first[0] == "answer":
                yield Edge(("lose the answer", *first[1:]), cost=DELAY)
            if first[0] == "reply":
                yield Edge(("reply twice", *first[1:]), cost=DELAY)
            if first[0] == "expand" and "late write" in shape.faults:
                yield Edge(("prepare", *first[1:]), cost=DELAY)
        for timer in timers if budget.delays and "timer" in (shape.delayed or ()) else ():
            yield Edge(timer, cost=DELAY)
    else:
        for actor in enabled:
            yield Edge(actor)
        for timer in () if system.is_answer_urgent() else timers:
            yield Edge(timer, cost=DELAY if system.is_waiting() else FREE)
    is_free = shape.recovers_freely or not ready
    may_be_early = budget.delays and (shape.delayed is None or "recovery" in shape.delayed)
    for recovery in system.recoveries() if is_free or may_be_early else ():
        yield Edge(recovery, cost=FREE if is_free else DELAY)
    for call in system.calls if is_free or budget.delays else ():
        if call.daemon != NOBODY:
            is_first = is_free and all(c.daemon != NOBODY for c in system.calls)
            yield Edge(("give up", call.daemon, call.number), cost=FREE if is_first else DELAY)
    if budget.faults:
        yield from _faults(system, enabled)
    if budget.records:
        for broker in system.brokers.values():
            if broker.leads(PARTITION):
                yield Edge(("produce", broker.id), cost=RECORD)
    for action, cost in choices(system, budget):
        yield Edge(action, cost=cost)


def _may_be_held(shape: Shape, actor: Action) -> bool:
    """Return whether a delay may hold an actor back; a lane may be meant by its own name."""
    return shape.delayed is None or not shape.delayed.isdisjoint({actor[0], actor[-1]})


def _is_served(system: System, actor: Action) -> bool:
    item = system.daemons[actor[1]].lanes[actor[2]][0]  # type: ignore[union-attr]
    return item[0] in {"events", "armed", "claimed", "claim_failed", "deposed", "won", "again"}


def _is_answered(system: System, actor: Action) -> bool:
    return system.daemons[actor[1]].channels.links[actor[2]].answer is not None  # type: ignore[union-attr]


def _faults(  # noqa: C901, PLR0912 - one kind each
    system: System, enabled: list[Action]
) -> Iterator[Edge]:
    faults = system.shape.faults
    for broker in system.mortals() if "kill" in faults else ():
        yield Edge(("kill", broker.id, True), cost=FAULT)
    for broker in system.mortals() if "hang" in faults else ():
        yield Edge(("hang", broker.id), cost=FAULT)
    for broker in system.mortals() if "bounce" in faults and system.is_held() else ():
        if PARTITION in broker.logs:
            yield Edge(("bounce", broker.id), cost=FAULT)
    is_asked = "lose log while asked" in faults and system.is_asked()
    for broker in system.mortals() if "lose log" in faults or is_asked else ():
        if PARTITION in broker.logs:
            yield Edge(("kill", broker.id, False), cost=FAULT)
    for actor in enabled if "lose call" in faults else ():
        if actor[0] == "call" and system.call(actor[1]).daemon != NOBODY:
            yield Edge(("unsent", system.call(actor[1]).daemon, actor[1]), cost=FAULT)
            yield Edge(("give up", system.call(actor[1]).daemon, actor[1]), cost=FAULT)
        if actor[0] == "reply":
            yield Edge(("give up", *actor[1:]), cost=FAULT)
    for actor in enabled if "lose answer" in faults else ():
        if actor[0] == "link":
            yield Edge(("lose answer", *actor[1:]), cost=FAULT)
    for number, daemon in enumerate(system.daemons):
        if daemon is None:
            continue
        if "crash" in faults:
            yield Edge(("crash", number), cost=FAULT)
        if "session" in faults and system.zookeeper.is_open(daemon.store.session):
            yield Edge(("lose session", number), cost=FAULT)
        if "reconnect" in faults:
            yield Edge(("reconnect", number), cost=FAULT)
    for broker in system.brokers.values() if "join late" in faults else ():
        replica = broker.hosted.get(PARTITION)
        if replica is None or not broker.leads(PARTITION) or replica.partition_epoch == -2:
            continue
        # Kafka's ``isFollowerInSync``: it holds what was there when the leader epoch began.
        if broker.logs[PARTITION].high_watermark <= replica.epoch_start:
            for follower in replica.joining:
                yield Edge(("join late", broker.id, follower), cost=FAULT)
    for broker in system.brokers.values() if faults & LAGS.keys() else ():
        replica = broker.hosted.get(PARTITION)
        if (
            replica is not None
            and broker.leads(PARTITION)
            and replica.partition_epoch != -2
            and not broker.is_asking(PARTITION)
        ):
            for action in (LAGS[kind] for kind in LAGS if kind in faults):
                for member in replica.isr:
                    if member != broker.id:
                        yield Edge((action, broker.id, member), cost=FAULT)


def strikes(edge: Edge, following: System) -> Iterator[Edge]:
    """Yield the faults that may strike within an action, after it was tried without."""
    faults = following.shape.faults
    cost = Budget(*map(sum, zip(edge.cost, FAULT, strict=True)))
    if edge.action[0] in OF_KAFKA:
        kafka = following.kafka
        for write in range(0 if kafka is None else kafka.writes) if "kafka dies" in faults else ():
            yield Edge(edge.action, ("die", write + 1), cost)
        return
    daemon = following.daemons[edge.action[1]]
    if daemon is None:
        return
    for at in range(daemon.points.passed) if "die" in faults else ():
        yield Edge(edge.action, ("die", at), cost)
    for multi in range(daemon.store.multis):
        for kind in ("before", "after") if "break" in faults else ():
            yield Edge(edge.action, ("break", multi, kind), cost)
        if "refuse" in faults:
            yield Edge(edge.action, ("refuse", multi), cost)


def explore(  # noqa: C901, PLR0915 - one loop
    shape: Shape,
    *,
    seconds: float = 60.0,
    states: int = 10_000_000,
    keeps_going: bool = False,
    progress: TextIO | None = None,
    is_covering: bool = True,
) -> Result:
    """
    Explore a shape until a violation, the end, or a limit.

    Args:
        shape: What to explore.
        seconds: The processor time after which to stop.
        states: The number of states after which to stop.
        keeps_going: Whether to go on after a violation, on the other histories.
        progress: Where to say every half a minute how far it is.
        is_covering: Whether a state is expanded again only if it has a budget that none covers.

    """
    began = time.process_time()
    gc.set_threshold(
        200_000, 20, 20
    )  # copies have circles; to look for them is a third of the time
    root = initial(shape)
    submit(root)
    nodes = [Node(-1, None, shape.budget)]
    result = Result(shape, nodes)
    known: dict[bytes, list[tuple[Budget, int]]] = {root.key(): [(shape.budget, 0)]}
    queue: deque[tuple[int, System]] = deque([(0, root)])
    result.states = 1
    reported = time.monotonic()
    while queue:
        if time.monotonic() - reported > PROGRESS_S:
            reported = time.monotonic()
            result.seconds = time.process_time() - began
            _report(result, len(queue), queue[0][0], progress)
        if time.process_time() - began > seconds or result.states > states:
            result.is_complete = False
            result.depth = len(result.history(queue[0][0]))
            break
        number, system = queue.popleft()
        budget = nodes[number].budget
        pending = deque(edges(system, budget))
        while pending:
            edge = pending.popleft()
            left = budget.spend(edge.cost)
            if left is None:
                continue
            is_last = not pending and not (left.faults and edge.action[0] in RUNS | OF_KAFKA)
            following = system if is_last else system.copied({})
            violation = take(following, edge)
            result.transitions += 1
            if edge.fault is None and edge.action[0] in RUNS | OF_KAFKA and left.faults:
                pending.extend(strikes(edge, following))
            key = following.key()
            found = known.setdefault(key, [])
            covering = _covering(found, left, is_exact=not is_covering)
            if covering is not None and violation is None:
                nodes[number].following.append(covering)
                continue
            ended = is_ended(following)
            node = Node(number, edge, left, is_ended=ended)
            if not found:
                result.states += 1
            found.append((left, len(nodes)))
            nodes[number].following.append(len(nodes))
            nodes.append(node)
            if violation is not None:
                result.violation, result.at = violation, len(nodes) - 1
                if not keeps_going:
                    result.seconds = time.process_time() - began
                    result.is_complete = False
                    return result
                continue
            if not (ended and is_quiet(following, left)):
                queue.append((len(nodes) - 1, following))
    result.seconds = time.process_time() - began
    return result


def _covering(found: list[tuple[Budget, int]], left: Budget, *, is_exact: bool) -> int | None:
    """Return the node of a state whose budget allows what another does."""
    return next((n for b, n in found if (b == left if is_exact else b.covers(left))), None)


def _report(result: Result, waiting: int, node: int, progress: TextIO | None) -> None:
    """Say how far an exploration is; ``node`` is the next to expand."""
    if progress is not None:
        depth = len(result.history(node))
        progress.write(
            f"  {result.shape.name}: {result.states} states, {waiting} to expand, {depth} steps "
            f"deep, {result.seconds:.0f} s\n"
        )
        progress.flush()


def is_quiet(system: System, budget: Budget) -> bool:
    """Return whether nothing but time is left, and no operator may delete the topic any more."""
    if next(system.actors(), None) is not None:
        return False
    return (
        "create topic" not in system.shape.operations or next(choices(system, budget), None) is None
    )


def take(system: System, edge: Edge) -> str | None:
    """Take a step; return the law that is broken."""
    try:
        act(system, edge.action, edge.fault)
    except p.InvariantError as error:
        return f"the daemon ends with an error: {error}"
    except Exception as error:  # noqa: BLE001 - any error of the daemon is a finding
        return f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    return broken(system)


def stuck(result: Result) -> list[int]:
    """Return the nodes from which no continuation ends the plan, without those not expanded."""
    before: list[list[int]] = [[] for _ in result.nodes]
    for number, node in enumerate(result.nodes):
        for following in node.following:
            before[following].append(number)
    good = [n for n, node in enumerate(result.nodes) if node.is_ended]
    reached = set(good)
    while good:
        for number in before[good.pop()]:
            if number not in reached:
                reached.add(number)
                good.append(number)
    return [n for n in range(len(result.nodes)) if n not in reached]


def replay(shape: Shape, history: list[Edge]) -> Iterator[tuple[Edge, System, str | None]]:
    """Play a history again, and yield each step with the state after it."""
    system = initial(shape)
    submit(system)
    for edge in history:
        violation = take(system, edge)
        yield edge, system, violation


def scenario(result: Result, node: int | None = None) -> str:
    """Return the history to a node as text, with what the cluster looks like after each step."""
    number = result.at if node is None else node
    lines = [f"shape {result.shape.name}: {result.shape.before} to {result.shape.target}"]
    for step, (edge, system, violation) in enumerate(replay(result.shape, result.history(number))):
        lines.append(f"{step + 1:3} {edge!s:44} {describe(system)}")
        if violation is not None:
            lines.append(f"    VIOLATION: {violation}")
    if result.violation is not None and node is None and "VIOLATION" not in lines[-1]:
        lines.append(f"    VIOLATION, not when played again: {result.violation}")
    return readable("\n".join(lines))


def readable(text: str) -> str:
    """Return a text with short transaction ids."""
    return re.sub(rf"{str(ZXID_BASE)[:8]}\d{{5}}", lambda m: str(int(m[0]) - ZXID_BASE), text)


def describe(system: System) -> str:
    """Return one line about the cluster."""
    state, assignment = system.state(), system.assignment()
    logs = ",".join(
        f"{b.id}{'' if b.is_alive else '!'}{'*' if b.leads(PARTITION) else ''}:"
        f"{len(b.logs[PARTITION].records) if PARTITION in b.logs else '-'}"
        for b in system.brokers.values()
    )
    phases = [
        "dead"
        if d is None
        else ",".join(
            type(r.phase).__name__ for r in d.reactor.view.reassignments.by_partition.values()
        )
        or ("held" if d.reactor.view.tenure.held else "-")
        for d in system.daemons
    ]
    moving = "no topic"
    if assignment is not None:
        moving = (
            f"{list(assignment.replicas)}+{list(assignment.adding_replicas)}"
            f"-{list(assignment.removing_replicas)}"
        )
    led = "no state"
    if state is not None:
        led = f"leader {state.leader}@{state.leader_epoch} isr {list(state.isr)}"
    return f"{led} {moving} logs {logs} {'/'.join(phases)} t={system.clock.t:g}"
