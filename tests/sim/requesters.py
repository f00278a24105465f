"""
The actions of operators on the daemon: requests, cancellations, the queue, and controls.

Each kind is a method with a weight, as in ``operators``, which draws them. What is owed for it is
not written down here: ``ledgers`` reads it in ZooKeeper, as the daemons do. ``heal`` takes back
what would hold work up for good, and garbage with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Final

from controller.core.model import BrokerId, Replicas, RequestId, TopicPartition
from controller.core.pacing.controls import (
    AT_ONCE,
    BrokerLimits,
    Drain,
    Drains,
    Limits,
    Pause,
    Pauses,
    QueueOrder,
    RequestLimits,
)
from controller.core.pacing.throttle_settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Entity,
    broker_entity,
    topic_entity,
)
from controller.core.requests.submissions import CancelScope, RequestOptions, StepSize, Window
from controller.reactor.ports import Delete
from controller.znodes import paths
from tests.sim.decoded import drains_of
from tests.sim.zookeeper import NO_SESSION, Make, Put

if TYPE_CHECKING:
    from tests.sim.settings import Settings
    from tests.sim.world import World

RATES: Final = (1_000_000, 50_000_000)
DISABLED_S: Final = (5.0, 40.0)
"""The time that the kill switch stays set, unless it is removed before."""
PAUSED_S: Final = (5.0, 40.0)
QUIESCED_S: Final = (5.0, 40.0)
DEADLINE_S: Final = 15.0
"""The time until the deadline of a quiesce, at most."""
PART_S: Final = 5.0
"""The time within which the parts of one request are written."""
GARBAGE: Final = (b"\xff\xfe", b"{", b"[]", b'{"version":2}', b'{"version":1,"nonsense":[]}')
NOT_THEIRS: Final = 77
"""A partition that no topic has, which operators throttle."""
MORE: Final = 0.6
"""The share of cancellations after which another partition is cancelled."""
MORE_S: Final = 3.0
"""The time within which it is."""
DRAINED_FROM: Final = 3
"""No broker more is drained if not more than so many are left."""
GARBLED_DRAINS: Final = 0.1
"""The share of drains that somebody overwrites with nonsense, until the next change of them."""
OPEN_HOURS: Final = 8
"""The time that a window is open: longer than any history."""


class Requesters:
    """The kinds of actions: methods that return a description, or None if not possible."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        target: Callable[[TopicPartition], Replicas],
    ) -> None:
        """
        Prepare.

        Args:
            world: The cluster that they operate.
            settings: The values that operators chose in Kafka's dynamic settings.
            target: Draws other replicas for a partition.

        """
        self._world = world
        self._settings = settings
        self._target = target
        self._requests: list[RequestId] = []
        self._pauses = Pauses()
        self._limits = Limits()
        self._drains = Drains()
        self._is_healed = False
        self.kinds: Mapping[str, Callable[[], str | None]] = {
            "request_submitted": self._submit,
            "request_in_parts": self._submit_parts,
            "request_overtaking": self._overtake,
            "leaders_moved": self._move_leaders,
            "request_garbled": self._garble_request,
            "cancelled": self._cancel,
            "cancel_garbled": self._garble_cancel,
            "disabled": self._disable,
            "paused": self._pause,
            "resumed": self._resume,
            "quiesced": self._quiesce,
            "limited": self._limit,
            "controls_garbled": self._garble_controls,
            "queue_submitted": self._submit_queue,
            "queue_garbled": self._garble_queue,
            "throttled": self._throttle,
            "settings_changed": self._change_settings,
            "drained": self._drain,
            "drain_stopped": self._stop_drain,
        }

    def submit_for_all(self) -> str:
        """Ask for a move of every partition."""
        return self._submit_entries(
            {p: self._target(p) for p in self._world.partitions()}, self._options()
        )

    def heal(self) -> None:
        """Remove every hold, and malformed znodes; drains stand."""
        world = self._world
        self._is_healed = True
        self._repair_drains()
        world.enable()
        world.forget_pauses()
        for path in (paths.LIMITS, paths.THROTTLE):
            world.zookeeper.remove_tree(path)
        self._pauses, self._limits = Pauses(), Limits()

    @property
    def _chance(self) -> Random:
        return self._world.schedule.random

    # --- requests ------------------------------------------------------------------------------

    def _some(self) -> list[TopicPartition]:
        partitions = self._world.partitions()
        if self._chance.random() < 0.6:
            partitions = self._chance.sample(partitions, self._chance.randint(1, len(partitions)))
        return partitions

    def _submit(self) -> str:
        """Ask for some partitions, now and then with entries that have to be refused."""
        entries = {p: self._target(p) for p in self._some()}
        if self._chance.random() < 0.3:
            entries |= dict(self._bad())
        return self._submit_entries(entries, self._options())

    def _submit_entries(
        self, entries: Mapping[TopicPartition, Replicas], options: RequestOptions
    ) -> str:
        request = self._world.submit_request(entries, options)
        self._requests.append(request)
        return f"{request} {_shown(options)}: {_text(entries)}"

    def _bad(self) -> Iterator[tuple[TopicPartition, Replicas]]:
        """Yield entries that cannot be carried out."""
        known = self._chance.choice(self._world.partitions())
        kinds: tuple[tuple[TopicPartition, Replicas], ...] = (
            (TopicPartition("nowhere", 0), _ids(1, 2)),
            (TopicPartition(known.topic, NOT_THEIRS), _ids(1, 2)),
            (known, _ids(1, NOT_THEIRS)),
        )
        yield from self._chance.sample(kinds, self._chance.randint(1, 2))

    def _options(self) -> RequestOptions:
        chance = self._chance
        return RequestOptions(
            reason=chance.choice(("", "drain")),
            priority=chance.choice((0, 0, 0, 5, -5)),
            step_size=self._step_size(),
            throttle=chance.choice((None, None, None, *RATES)),
            window=self._window() if chance.random() < 0.15 else None,
            max_partitions_in_flight=chance.choice((None, None, None, 1, 3)),
            atomic=chance.random() < 0.2,
            tolerate_lagging=self._tolerated() or (),
        )

    def _tolerated(self) -> Replicas | None:
        """Draw brokers whose lagging replicas are not awaited, mostly none."""
        some = sorted(self._world.brokers)
        return tuple(self._chance.sample(some, 2)) if self._chance.random() < 0.25 else None

    def _step_size(self) -> StepSize | None:
        sizes: tuple[StepSize | None, ...] = (None, None, None, 1, 2, "all")
        return self._chance.choice(sizes)

    def _window(self) -> Window:
        """Draw hours that are open, or open within minutes."""
        at = datetime.fromtimestamp(self._world.schedule.unix_s(), UTC)
        opens = (at.hour * 60 + at.minute + self._chance.randint(0, 2)) % (24 * 60)
        return Window(opens, (opens + 60 * OPEN_HOURS) % (24 * 60))

    def _submit_parts(self) -> str | None:
        """Submit one request in several znodes, as clients do with very large ones."""
        partitions = self._world.partitions()
        parts = self._chance.randint(2, 3)
        if len(partitions) < parts:
            return None
        self._chance.shuffle(partitions)
        entries = [{p: self._target(p) for p in partitions[n::parts]} for n in range(parts)]
        options = replace(self._options(), parts=parts)
        request = self._world.submit_request(entries[0], options)
        self._requests.append(request)
        for part in entries[1:]:

            def write(part: dict[TopicPartition, Replicas] = part) -> None:
                self._world.submit_request(part, replace(options, part_of=request))

            self._world.schedule.call_between(0.0, PART_S, write)
        return f"{request} {_shown(options)}: {'; '.join(map(_text, entries))}"

    def _overtake(self) -> str | None:
        """Request another target for partitions with a reassignment."""
        moving = [p for p in self._world.partitions() if self._is_moving(p)]
        if not moving:
            return None
        chosen = self._chance.sample(moving, self._chance.randint(1, len(moving)))
        return self._submit_entries({p: self._target(p) for p in chosen}, self._options())

    def _move_leaders(self) -> str:
        """Request another order of the same replicas, and that the first one leads."""
        entries = {}
        for partition in self._some():
            order = list(self._world.assignment(partition).target_replicas)
            self._chance.shuffle(order)
            entries[partition] = tuple(order)
        return self._submit_entries(entries, replace(self._options(), elect_leaders=True))

    def _is_moving(self, partition: TopicPartition) -> bool:
        return self._world.zookeeper.get(paths.reassignment_path(partition)) is not None

    def _garble_request(self) -> str:
        garbage = self._chance.choice(GARBAGE)
        self._world.zookeeper.ensure(paths.REQUESTS)
        make = Make(paths.NEW_SUBMISSION, garbage, sequential=True)
        self._world.zookeeper.transact(NO_SESSION, [make])
        return repr(garbage)

    # --- cancellations -------------------------------------------------------------------------

    def _cancel(self) -> str | None:
        """Cancel everything or a selection, sometimes one more partition soon afterwards."""
        world, chance = self._world, self._chance
        scope = chance.choice((CancelScope.IN_FLIGHT, CancelScope.IN_FLIGHT, CancelScope.ALL))
        match chance.choice(("everything", "requests", "topics", "partitions")):
            case "requests" if self._requests:
                named = chance.sample(self._requests, min(2, len(self._requests)))
                what, is_written = ", ".join(named), world.cancel(requests=named, scope=scope)
            case "topics":
                what = chance.choice(world.partitions()).topic
                is_written = world.cancel(topics=[what], scope=scope)
            case "partitions":
                some = self._some()
                what = ", ".join(map(str, some))
                is_written = world.cancel(partitions=some, scope=scope)
            case _:
                what, is_written = "everything", world.cancel(scope=scope)
        if chance.random() < MORE:
            world.schedule.call_between(0.0, MORE_S, lambda: self._cancel_one_more(scope))
        return f"{what}, {scope}" if is_written else None

    def _cancel_one_more(self, scope: CancelScope) -> None:
        """Submit a request beside a cancellation in progress, then cancel one partition."""
        world, partitions = self._world, self._world.partitions()
        if world.zookeeper.get(paths.CANCEL) is None or not partitions:
            return
        submitted = self._submit()
        one = self._chance.choice(partitions)
        is_written = world.cancel(partitions=[one], scope=scope)
        world.fabric.note(f"beside a cancellation: {submitted}; {one} cancelled: {is_written}")

    def _garble_cancel(self) -> str | None:
        return self._garble(paths.CANCEL, may_replace=False)

    # --- controls ------------------------------------------------------------------------------

    def _disable(self) -> str | None:
        world = self._world
        if world.zookeeper.get(paths.KILL_SWITCH) is not None:
            world.enable()
            return "enabled"
        world.disable()
        world.schedule.call_between(*DISABLED_S, world.enable)
        return "disabled"

    def _pause(self) -> str:
        """Pause everything, a request or a broker, for a while."""
        chance, pause = self._chance, Pause("storm", "somebody")
        match chance.choice(("everything", "request", "broker")):
            case "request" if self._requests:
                request = chance.choice(self._requests[-3:])
                self._pauses = replace(
                    self._pauses, requests={**self._pauses.requests, request: pause}
                )
            case "broker":
                broker = chance.choice(sorted(self._world.brokers))
                self._pauses = replace(
                    self._pauses, brokers={**self._pauses.brokers, broker: pause}
                )
            case _:
                self._pauses = replace(self._pauses, everything=pause)
        self._world.pause(self._pauses)
        self._world.schedule.call_between(*PAUSED_S, self._continue)
        return str(self._pauses)

    def _resume(self) -> str | None:
        if self._pauses == Pauses():
            return None
        self._continue()
        return "everything"

    def _continue(self) -> None:
        self._pauses = Pauses()
        self._world.pause(self._pauses)

    def _quiesce(self) -> str:
        """End all work for a while: with a deadline, without one, or at once."""
        world, chance = self._world, self._chance
        self._pauses = replace(self._pauses, everything=None)
        deadline_s = chance.uniform(0.0, DEADLINE_S)
        due = int(1000 * (world.schedule.unix_s() + deadline_s))
        found = world.quiesce(chance.choice((None, due, AT_ONCE)))
        world.schedule.call_between(*QUIESCED_S, lambda: world.resume(found))
        return str(found)

    def _limit(self) -> str:
        chance = self._chance
        broker = chance.choice(sorted(self._world.brokers))
        own = {broker: BrokerLimits(max_incoming=chance.choice((0, 1)), max_outgoing=None)}
        requests = {
            request: RequestLimits(
                priority=chance.choice((None, 9)),
                step_size=self._step_size(),
                throttle=chance.choice((None, *RATES)),
                max_partitions_in_flight=chance.choice((None, 1)),
                tolerate_lagging=self._tolerated(),
            )
            for request in self._requests[-1:]
        }
        self._limits = Limits(
            max_partitions_in_flight=chance.choice((None, None, 1, 5)),
            max_incoming_per_broker=chance.choice((None, 1, 3)),
            max_outgoing_per_broker=chance.choice((None, 1, 3)),
            max_leader_moves_per_broker_per_second=chance.choice((None, 1)),
            step_size=self._step_size(),
            order=chance.choice((None, *QueueOrder)),
            window=self._window() if chance.random() < 0.1 else None,
            brokers=own if chance.random() < 0.3 else {},
            requests=requests if chance.random() < 0.5 else {},
        )
        self._world.limit(self._limits)
        return str(self._limits)

    def _garble_controls(self) -> str | None:
        path = self._chance.choice((paths.PAUSES, paths.LIMITS, paths.THROTTLE))
        return self._garble(path, may_replace=True)

    # --- drains --------------------------------------------------------------------------------

    def _drain(self) -> str | None:
        """Drain a broker more, so that most partitions have enough others; or write nonsense."""
        self._repair_drains()
        left = sorted(self._world.brokers.keys() - self._drains.brokers.keys())
        if len(left) <= DRAINED_FROM:
            return None
        chance = self._chance
        if not self._drains.brokers:
            throttle = chance.choice((None, None, *RATES))
            self._drains = Drains(throttle=throttle)
        self._drains = self._drains.adding(Drain("storm", "somebody"), [chance.choice(left)])
        self._world.drain(self._drains)
        if chance.random() < GARBLED_DRAINS:
            self._world.schedule.call_between(0.0, PART_S, self._garble_drains)
        return str(sorted(self._drains.brokers))

    def _stop_drain(self) -> str | None:
        """Stop the drain of a broker, or of all."""
        self._repair_drains()
        drained = sorted(self._drains.brokers)
        if not drained:
            return None
        chosen = drained if self._chance.random() < 0.5 else [self._chance.choice(drained)]
        self._drains = self._drains.removing(chosen)
        self._world.drain(self._drains)
        return f"of {chosen}"

    def _repair_drains(self) -> None:
        """Follow a cancellation that ended the drains, and write them again where unreadable."""
        znode = self._world.zookeeper.get(paths.DRAINS)
        if znode is None:
            self._drains = Drains()
        elif isinstance(drains_of(znode), str):
            self._world.drain(self._drains)

    def _garble_drains(self) -> None:
        if not self._is_healed and self._world.zookeeper.get(paths.DRAINS) is not None:
            self._world.fabric.note(f"nonsense: {self._garble(paths.DRAINS, may_replace=True)}")

    # --- the queue -----------------------------------------------------------------------------

    def _submit_queue(self) -> str | None:
        if self._world.zookeeper.get(paths.QUEUE) is not None:
            return None
        entries = {p: self._target(p) for p in self._some()}
        self._world.submit_queue(entries)
        return _text(entries)

    def _garble_queue(self) -> str | None:
        return self._garble(paths.QUEUE, may_replace=False)

    def _garble(self, path: str, *, may_replace: bool) -> str | None:
        garbage = self._chance.choice(GARBAGE)
        zookeeper = self._world.zookeeper
        if zookeeper.get(path) is None:
            zookeeper.ensure(path, garbage)
        elif may_replace:
            zookeeper.transact(NO_SESSION, [Put(path, garbage)])
        else:
            return None
        return f"{path} {garbage!r}"

    # --- throttles -----------------------------------------------------------------------------

    def _throttle(self) -> str:
        """Set the throttle for all, change it or take it away."""
        zookeeper = self._world.zookeeper
        if zookeeper.get(paths.THROTTLE) is not None and self._chance.random() < 0.3:
            zookeeper.transact(NO_SESSION, [Delete(paths.THROTTLE, None)])
            return "none"
        rate = self._chance.choice(RATES)
        self._world.throttle(rate)
        return str(rate)

    def _change_settings(self) -> str:
        """Set or delete a dynamic setting of a topic or a broker, as ``kafka-configs`` does."""
        entity, key, value = self._setting()
        self._settings.change(entity, key, value)
        return f"{entity} {key}={value}"

    def _setting(self) -> tuple[Entity, str, str | None]:
        chance = self._chance
        if chance.random() < 0.5:
            broker = BrokerId(chance.choice(sorted(self._world.brokers)))
            key = chance.choice((LEADER_RATE, FOLLOWER_RATE, "log.cleaner.threads"))
            return broker_entity(broker), key, chance.choice((None, "123456", "7"))
        topic = chance.choice(self._world.partitions()).topic
        key = chance.choice((LEADER_REPLICAS, FOLLOWER_REPLICAS, "retention.ms"))
        if key == "retention.ms":
            return topic_entity(topic), key, chance.choice((None, "86400000"))
        values = (None, "*", f"{NOT_THEIRS}:1", f"{NOT_THEIRS}:1,{NOT_THEIRS}:2")
        return topic_entity(topic), key, chance.choice(values)


def _ids(*numbers: int) -> Replicas:
    return tuple(BrokerId(n) for n in numbers)


def _shown(options: RequestOptions) -> str:
    default = RequestOptions()
    said = {f: getattr(options, f) for f in RequestOptions.__slots__}
    return str({f: str(v) for f, v in said.items() if v != getattr(default, f)})


def _text(entries: Mapping[TopicPartition, Replicas]) -> str:
    return ", ".join(f"{p} -> {[int(r) for r in t]}" for p, t in entries.items())
