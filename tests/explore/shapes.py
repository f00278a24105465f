"""
The shapes: which cluster, which plan, which faults, and how many of them.

``SMALL`` takes about a minute and belongs to ``make test``; ``make explore`` explores ``ALL``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from tests.explore.isr_requests import ENDPOINT
from tests.explore.production import EngineName, Options
from tests.explore.system import Budget, Shape

NEVER_S: Final = 1e9
OPTIONS: Final = Options(size_refresh_s=NEVER_S, copy_refresh_s=NEVER_S, config_refresh_s=NEVER_S)
"""No settings and sizes are read again: what is periodic is no part of the protocol."""
DELEGATED: Final = replace(OPTIONS, engine=EngineName.DELEGATED)
IN_DAEMON: Final = frozenset({"die", "break", "refuse"})
"""Faults within a cycle of the daemon."""
OF_DAEMON: Final = frozenset({"session", "reconnect"}) | IN_DAEMON
OF_BROKERS: Final = frozenset({"kill", "lose log", "lose answer", "slow"})
OF_CALLS: Final = IN_DAEMON | {"kill", "kafka dies", "lose call"}
"""Faults of a daemon, of Kafka's controller, and of the requests between them."""
CALLS: Final = frozenset({"call", "reply"})
ALL_FAULTS: Final = OF_DAEMON | OF_BROKERS


def native(
    name: str,
    before: tuple[int, ...],
    target: tuple[int, ...],
    *,
    faults: frozenset[str] = frozenset(),
    delays: int = 0,
    struck: int = 1,
    records: int = 0,
    operator: int = 0,
    daemons: int = 1,
    min_isr: int = 1,
    options: Options = OPTIONS,
    is_bounded: bool = True,
    asks: int | None = None,
    delayed: frozenset[str] | None = None,
    mortal: tuple[int, ...] | None = None,
    recovers_freely: bool = False,
    operations: frozenset[str] = frozenset({"cancel"}),
    retarget: tuple[int, ...] = (),
    drained: int = 0,
    throttle: int | None = None,
    tolerates: tuple[int, ...] = (),
    elects: bool = False,
    announces: bool = False,
    acts_early: bool = False,
) -> Shape:
    """Return a shape of the native engine; its brokers are those that it names."""
    return Shape(
        name=name,
        before=before,
        target=target,
        brokers=max(*before, *target, *retarget, 3 if drained else 0),
        budget=Budget(delays, struck if faults else 0, records, operator),
        faults=faults,
        options=options if asks is None else replace(options, endpoint=ENDPOINT),
        daemons=daemons,
        is_bounded=is_bounded,
        min_isr=min_isr,
        asks=asks,
        delayed=delayed,
        mortal=mortal,
        recovers_freely=recovers_freely,
        operations=operations,
        retarget=retarget,
        drained=drained,
        throttle=throttle,
        tolerates=tolerates,
        elects=elects,
        # A follower may lag when the plan comes: nothing else says that it is back.
        announces=announces or not faults.isdisjoint({"slow", "die unannounced"}),
        acts_early=acts_early,
    )


def asked(
    name: str,
    before: tuple[int, ...],
    target: tuple[int, ...],
    *,
    asks: int,
    lost: int | None = None,
    delays: int = 1,
    struck: int = 1,
    faults: frozenset[str] = frozenset(),
    delayed: frozenset[str] = frozenset(),
) -> Shape:
    """Return a shape whose leaders ask for ISRs, and whose broker ``lost`` loses its log then."""
    return native(
        name,
        before,
        target,
        asks=asks,
        faults=faults if lost is None else faults | {"lose log while asked"},
        mortal=() if lost is None else (lost,),
        delays=delays,
        struck=struck,
        delayed=delayed | {"ask", "answer"},
    )


def delegated(
    name: str,
    before: tuple[int, ...],
    target: tuple[int, ...],
    *,
    asks: int | None = None,
    mortal: tuple[int, ...] | None = None,
    **others: Any,
) -> Shape:
    """
    Return a shape of the delegated engine; leaders that ask, ask Kafka's controller.

    That is on a broker without a replica, so that it may die alone.
    """
    shape = native(name, before, target, options=DELEGATED, **others)
    controller = shape.brokers + 1
    return shape._replace(
        brokers=controller, mortal=mortal or (controller,), asks=asks, is_kafka_busy=False
    )


DELAYED: Final = {
    "lists": frozenset({"levels"}),
    "topics": frozenset({"again", "bulk"}),
    "requests": frozenset({"link"}),
    "replicas": frozenset({"fetch", "expand", "shrink", "write"}),
    "roles": frozenset({"claims", "elect", "pass", "notice", "recovery"}),
    "others": frozenset({"configs", "settings", "watch", "alter"}),
}
"""What a delay holds back: together everything that a native shape has."""


def late(name: str, *plan: tuple[int, ...], **others: Any) -> Iterator[Shape]:
    """
    Yield the shapes of one delay, a kind each.

    A history has one delay, and it is of one kind: together they are the shape in which the delay
    is of any kind.
    """
    for kind, delayed in DELAYED.items():
        yield native(f"{name}, late {kind}", *plan, delays=1, delayed=delayed, **others)


MOVE: Final = ((1, 2), (2, 3))

STEPS: Final = ((1, 2, 3), (3, 4, 5))
DEATHS: Final = frozenset({"crash", "kill"})
RECREATE: Final = frozenset({"delete topic", "create topic"})
HANG: Final = frozenset({"hang"})
EARLY: Final = frozenset({"timer"})
"""Time passes before everything that is under way has arrived."""
PAUSE: Final = frozenset({"pause"})
RETARGET: Final = frozenset({"retarget"})
DEPOSE: Final = frozenset({"take role"})
REFUSED: Final = frozenset({"refused plan"})
DRAIN: Final = frozenset({"drain"})
THROTTLE: Final = frozenset({"throttle", "unthrottle"})
REPLACE: Final = frozenset({"replace topic"})

SMALL: Final = (
    native("move", *MOVE),
    native("move, daemon dies or breaks", *MOVE, faults=IN_DAEMON),
    native(
        "an excluded replica joins late, jump",
        (1, 2, 3),
        (1, 4),
        faults=frozenset({"join late"}),
        options=replace(OPTIONS, step_size=None),
    ),
    native("an excluded replica joins late", (1, 2), (1, 3), faults=frozenset({"join late"})),
    native("swap", (1, 2), (3, 4)),
    native("jump", *MOVE, faults=IN_DAEMON, options=replace(OPTIONS, step_size=None)),
    native("order alone", (1, 2), (2, 1), faults=IN_DAEMON),
    native("leadership moves", (1, 2), (2, 1), faults=IN_DAEMON, elects=True),
    native("RF 1 to 2", (1,), (1, 2), faults=IN_DAEMON),
    native("RF 2 to 1", (1, 2), (2,), faults=IN_DAEMON),
    native("RF 1 moves", (1,), (2,), faults=IN_DAEMON),
    native("cancel at any instant", *MOVE, operator=1),
    native(
        "another target at any instant",
        (1,),
        (2,),
        operator=1,
        operations=RETARGET,
        retarget=(3,),
    ),
    native("drain of the added broker", (1,), (2,), operator=1, operations=DRAIN, drained=2),
    delegated("delegated move", *MOVE, faults=OF_CALLS),
    delegated("delegated order alone", (1, 2), (2, 1), faults=OF_CALLS),
    delegated("delegated cancel", *MOVE, operator=1),
    delegated("delegated drain", (1,), (2,), operator=1, operations=DRAIN, drained=2),
    delegated(
        "delegated RF 1 to 2 to 1",
        (1,),
        (1, 2),
        operator=1,
        operations=RETARGET,
        retarget=(1,),
    ),
    delegated(
        "delegated RF 1 moves, topic replaced while requests wait",
        (1,),
        (2,),
        operator=2,
        operations=REPLACE | {"occupy"},
    ),
    native("pause and resume", *MOVE, operator=1, operations=PAUSE),
    native("throttle set and changed", *MOVE, operator=2, operations=THROTTLE, throttle=1000),
    native("RF 1 moves, topic replaced", (1,), (2,), operator=1, operations=REPLACE),
    native("move, ISR asked", *MOVE, asks=0),
    native("move, ISR asked with ids", *MOVE, asks=3),
)

LARGE: Final = (
    native(
        "an excluded replica joins late, news late",
        (1, 2),
        (1, 3),
        faults=frozenset({"join late"}),
        records=1,
        delays=1,
        delayed=frozenset({"watch", "link"}),
    ),
    native(
        "an excluded replica joins late, a broker dies",
        (1, 2),
        (1, 3),
        faults=frozenset({"join late", "kill"}),
        struck=2,
    ),
    native(
        "drain, daemon dies or breaks",
        (1,),
        (2,),
        operator=1,
        operations=DRAIN,
        drained=1,
        faults=IN_DAEMON,
    ),
    native("swap, daemon dies or breaks", (1, 2), (3, 4), faults=IN_DAEMON),
    native("throttle of all set and lifted", *MOVE, operator=2, operations=THROTTLE, throttle=0),
    native("topic created again", *MOVE, operator=2, operations=RECREATE),
    native("move, broker dies", *MOVE, faults=frozenset({"kill"})),
    native("move, broker hangs", *MOVE, faults=HANG),
    native("move, the leader dies unannounced", *MOVE, faults=frozenset({"die unannounced"})),
    native("move, late", *MOVE, delays=1),
    native("move, late, a record", *MOVE, delays=1, records=1),
    native("move, early timers", *MOVE, delays=2, delayed=EARLY),
    native("move, a late request of a dead daemon", *MOVE, faults=frozenset({"crash", "stray"})),
    native("move, disk lost", *MOVE, faults=frozenset({"lose log"})),
    native("move, answers lost", *MOVE, faults=frozenset({"lose answer", "slow"})),
    native(
        "RF 1 moves, disk lost",
        (1,),
        (2,),
        faults=frozenset({"lose log"}),
        recovers_freely=True,
    ),
    native("RF 1 moves, late", (1,), (2,), faults=OF_BROKERS, delays=1),
    native(
        "move, late write",
        *MOVE,
        faults=frozenset({"lose log", "late write"}),
        delays=1,
    ),
    native("move, session", *MOVE, faults=OF_DAEMON, delays=1),
    native("move, the daemon and a broker die", *MOVE, faults=DEATHS, struck=2),
    native("move, two faults", *MOVE, faults=ALL_FAULTS, struck=2),
    native("steps of one, daemon dies or breaks", *STEPS, faults=IN_DAEMON),
    native("steps of one, a broker", *STEPS, faults=OF_BROKERS),
    native("steps of one, the daemon and a broker die", *STEPS, faults=DEATHS, struck=2),
    native("steps of one, two faults", *STEPS, faults=ALL_FAULTS, struck=2),
    native("order alone, late", (1, 2), (2, 1), faults=ALL_FAULTS, delays=1),
    native("cancel, daemon dies or breaks", *MOVE, faults=IN_DAEMON, operator=1),
    native("cancel and a fault", *MOVE, faults=ALL_FAULTS, operator=1),
    native(
        "another target, daemon dies or breaks",
        (1,),
        (2,),
        operator=1,
        operations=RETARGET,
        retarget=(3,),
        faults=IN_DAEMON,
    ),
    native("pause, daemon dies or breaks", *MOVE, operator=1, operations=PAUSE, faults=IN_DAEMON),
    native("role taken, twice", *MOVE, operator=2, operations=DEPOSE),
    native(
        "role taken, daemon dies or breaks", *MOVE, operator=1, operations=DEPOSE, faults=IN_DAEMON
    ),
    native("role taken, late", *MOVE, operator=1, operations=DEPOSE, delays=1),
    native("a plan that is refused", *MOVE, operator=1, operations=REFUSED, faults=IN_DAEMON),
    native(
        "topic created again around a claim",
        *MOVE,
        faults=frozenset({"crash", "session"}),
        operator=2,
        operations=RECREATE,
        acts_early=True,
    ),
    *late(
        "topic created again around a claim",
        *MOVE,
        operator=2,
        operations=RECREATE,
        acts_early=True,
    ),
    *late("topic created again", *MOVE, operator=2, operations=RECREATE),
    *late("topic replaced", *MOVE, operator=1, operations=REPLACE),
    native("topic replaced, a fault", *MOVE, faults=OF_DAEMON, operator=1, operations=REPLACE),
    delegated("delegated swap", (1, 2), (3, 4), faults=OF_CALLS),
    delegated("delegated move, late request", *MOVE, delays=1, delayed=CALLS),
    delegated(
        "delegated move, late request, a fault", *MOVE, faults=OF_CALLS, delays=1, delayed=CALLS
    ),
    delegated("delegated swap, late request", (1, 2), (3, 4), delays=1, delayed=CALLS),
    delegated("delegated move, late", *MOVE, delays=1),
    delegated("delegated move, early timers", *MOVE, delays=2, delayed=EARLY),
    delegated("delegated move, ISR asked", *MOVE, faults=OF_CALLS, asks=0),
    delegated("delegated move, ISR asked with ids", *MOVE, faults=OF_CALLS, asks=3),
    delegated("delegated move, two faults", *MOVE, faults=OF_CALLS, struck=2),
    delegated("delegated pause and resume", *MOVE, operator=1, operations=PAUSE),
    delegated(
        "delegated another target, a fault",
        (1,),
        (2,),
        operator=1,
        operations=RETARGET,
        retarget=(3,),
        faults=OF_CALLS,
    ),
    delegated("delegated, Kafka's role taken", *MOVE, operator=2, operations=DEPOSE),
    delegated("delegated cancel, a fault", *MOVE, faults=OF_CALLS, operator=1),
    delegated("delegated cancel, late request", *MOVE, delays=1, delayed=CALLS, operator=1),
    native(
        "leadership moves, lags, late write of a lost log",
        (1, 2),
        (2, 1),
        faults=frozenset({"bounce", "late write", "slow"}),
        mortal=(2,),
        struck=2,
        delays=1,
        delayed=frozenset({"expand", "write"}),
        elects=True,
        announces=True,
    ),
    native(
        "RF 3 to 2, topic rewritten, leader's log lost",
        (1, 2, 3),
        (1, 2),
        faults=frozenset({"bounce"}),
        mortal=(1,),
        delays=1,
        delayed=frozenset({"again"}),
        announces=True,
        operator=1,
        operations=frozenset({"rewrite topic"}),
    ),
    native("two daemons", *MOVE, faults=OF_DAEMON, daemons=2),
    asked("move, ISR asked with ids, a follower lags", *MOVE, asks=3, faults=frozenset({"slow"})),
    asked(
        "order alone, ISR asked with ids, lags and log lost",
        (1, 2),
        (2, 1),
        asks=3,
        lost=2,
        struck=2,
        faults=frozenset({"slow"}),
    ),
    asked(
        "RF 1 to 2, ISR asked with ids, log lost, refused",
        (1,),
        (1, 2),
        asks=3,
        lost=2,
        struck=2,
        faults=frozenset({"refuse"}),
    ),
    asked(
        "RF 1 to 2, ISR asked with ids, log lost, late read",
        (1,),
        (1, 2),
        asks=3,
        lost=2,
        delays=2,
        delayed=frozenset({"bulk"}),
    ),
    asked("RF 1 to 2, ISR asked, log lost", (1,), (1, 2), asks=0, lost=2),
    asked("RF 1 to 2, ISR asked with ids, log lost", (1,), (1, 2), asks=3, lost=2),
    asked("move, ISR asked, log lost", *MOVE, asks=0, lost=3),
    asked("move, ISR asked with ids, log lost", *MOVE, asks=3, lost=3),
    asked("move, ISR asked with ids, leader's log lost", *MOVE, asks=3, lost=1),
)
ALL: Final = (*SMALL, *LARGE)

KILL: Final = frozenset({"kill"})
LOSE: Final = frozenset({"lose log"})
FOCUSED: Final = (
    native("move, a follower lags", *MOVE, faults=frozenset({"slow"})),
    native(
        "nothing to move, an ISR read late and the leader's log lost",
        (2, 1, 3),
        (2, 1, 3),
        faults=frozenset({"bounce", "slow"}),
        mortal=(2,),
        struck=2,
        delays=1,
        delayed=frozenset({"bulk"}),
    ),
    native("move, a tolerated follower lags", *MOVE, faults=frozenset({"slow"}), tolerates=(2,)),
    native(
        "RF 3 to 2, a tolerated follower lags",
        (1, 2, 3),
        (1, 2),
        faults=frozenset({"slow"}),
        tolerates=(2,),
    ),
    native("min ISR", (1, 2), (3, 4), faults=frozenset({"slow"}), min_isr=2),
    native("move, broker 1 dies", *MOVE, faults=KILL, mortal=(1,)),
    native("move, broker 2 dies", *MOVE, faults=KILL, mortal=(2,)),
    native("move, broker 3 dies", *MOVE, faults=KILL, mortal=(3,)),
    native("move, broker 1 hangs", *MOVE, faults=HANG, mortal=(1,)),
    native("RF 1 moves, broker 1 dies", (1,), (2,), faults=KILL, mortal=(1,)),
    native("RF 1 to 2, broker 2 dies", (1,), (1, 2), faults=KILL, mortal=(2,)),
    native("swap, broker 1 dies", (1, 2), (3, 4), faults=KILL, mortal=(1,)),
    native("move, broker 1 loses its log", *MOVE, faults=LOSE, mortal=(1,), delays=1),
    native(
        "move, broker 1 loses its log, late topics",
        *MOVE,
        faults=LOSE,
        mortal=(1,),
        delays=1,
        delayed=DELAYED["topics"],
    ),
    native("move, broker 2 loses its log", *MOVE, faults=LOSE, mortal=(2,), delays=1),
    native(
        "RF 1 moves, broker 2 loses its log",
        (1,),
        (2,),
        faults=LOSE,
        mortal=(2,),
        recovers_freely=True,
    ),
    native(
        "RF 1 moves, late write of a lost log",
        (1,),
        (2,),
        faults=LOSE | {"late write"},
        mortal=(2,),
        delays=1,
    ),
)
"""Parts of these for which a mutant is quickly found."""


def shape_named(name: str) -> Shape:
    """Return a shape by its name."""
    return next(shape for shape in (*ALL, *FOCUSED) if shape.name == name)
