"""
The daemon's queries and requests about log directories, as simulated brokers carry them out.

Requests and answers get lost or are late; a request that arrived is carried out, whatever becomes
of its answer, and of the daemon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from controller.core.cluster.model import LiveBroker
from controller.core.core_settings import EngineName, Options
from controller.core.disks.records import DirectoryResult, LogDirsAltered, LogDirsDescribed
from controller.core.model import Instant, PlacedReplica, TopicPartition
from controller.core.view import ClusterView
from controller.reactor.loop import Reactor
from controller.reactor.ports import Inbox
from integration.rigs.failpoint_names import NamedFailpoints
from tests.sim.alter_api import SimAlterApi
from tests.sim.alter_rules import AlterRules
from tests.sim.daemons import Build, Ports
from tests.sim.disks import RECORD_BYTES, described, path_of
from tests.sim.histories import SilentObserver

if TYPE_CHECKING:
    from tests.sim.brokers import SimBroker
    from tests.sim.fabric import Fabric
    from tests.sim.store import SimStore
    from tests.sim.world import World

DELAY_S: Final = (0.001, 0.05)
DESCRIBE_S: Final = (0.005, 0.1)
"""The time from a query until a broker reads its directories."""
ANSWER_S: Final = (0.001, 0.4)
ANSWER_WITHIN_S: Final = 5.0
"""The time after which the daemon gives a request up."""
UNANSWERED: Final = -1


class SimLogDirs:
    """Implements ``reactor.ports.LogDirs``."""

    def __init__(self, fabric: Fabric, inbox: Inbox, *, loss: float = 0.0) -> None:
        """
        Prepare.

        Args:
            fabric: The brokers.
            inbox: Of the daemon.
            loss: Probability that a request, or its answer, is lost.

        """
        self._fabric = fabric
        self._inbox = inbox
        self._loss = loss
        self._calls = 0
        """Grows with each ``forget``: earlier requests that did not arrive are dropped."""

    def describe(
        self,
        brokers: Sequence[LiveBroker],
        partitions: Sequence[TopicPartition],
        *,
        is_whole: bool,
    ) -> None:
        """Have each broker read its directories at its own time, and its answer arrive later."""
        wanted = frozenset(partitions)
        for broker in brokers:
            self._describe(broker, wanted, is_whole=is_whole)

    def _describe(
        self, broker: LiveBroker, wanted: frozenset[TopicPartition], *, is_whole: bool
    ) -> None:
        schedule = self._fabric.schedule
        silent = LogDirsDescribed(broker.id, broker.epoch, Instant(schedule.now()), wanted)

        def failed() -> None:
            self._inbox.put(replace(silent, problem="it does not answer"))

        def look() -> None:
            host = self._host(broker)
            if host is None or self._is_lost():
                schedule.call_in(ANSWER_WITHIN_S, failed)
                return
            dirs = described(self._fabric, host, is_whole=is_whole)
            found = {p: r for p in sorted(wanted) if (r := self._placed(host, p)) is not None}
            answer = replace(silent, dirs=dirs, replicas=found)
            schedule.call_between(*ANSWER_S, lambda: self._inbox.put(answer))

        schedule.call_between(*DESCRIBE_S, look)

    def alter(self, broker: LiveBroker, replicas: Mapping[TopicPartition, str]) -> None:
        """Have a broker place replicas, and the answer arrive later."""
        wanted, call = dict(replicas), self._calls
        for listener in self._fabric.on_sent:
            listener(broker.id, wanted)

        def failed() -> None:
            results = (DirectoryResult(p, d, UNANSWERED, "no answer") for p, d in wanted.items())
            self._inbox.put(LogDirsAltered(broker.id, broker.epoch, tuple(results)))

        def arrive() -> None:
            if call != self._calls:
                return
            host = self._host(broker)
            if host is None or self._is_lost():
                self._fabric.schedule.call_in(ANSWER_WITHIN_S, failed)
                return
            results = tuple(
                DirectoryResult(p, d, host.place(p, number_of(d))) for p, d in wanted.items()
            )
            if self._is_lost():
                self._fabric.schedule.call_in(ANSWER_WITHIN_S, failed)
                return
            event = LogDirsAltered(broker.id, broker.epoch, results)
            self._fabric.schedule.call_between(*DELAY_S, lambda: self._inbox.put(event))

        self._fabric.schedule.call_between(*DELAY_S, arrive)

    def forget(self) -> None:
        """Drop what did not arrive."""
        self._calls += 1

    def _host(self, broker: LiveBroker) -> SimBroker | None:
        host = self._fabric.brokers.get(broker.id)
        return host if host is not None and host.is_alive else None

    def _placed(self, host: SimBroker, partition: TopicPartition) -> PlacedReplica | None:
        log, future = host.logs.get(partition), host.futures.get(partition)
        if log is None or not log.is_online:
            return None
        disks = self._fabric.disks
        size = RECORD_BYTES if disks is None else disks.record_bytes
        here = PlacedReplica(path_of(log.directory), log.end * size)
        if future is None:
            return here
        return replace(here, future=path_of(future.directory), future_size=future.end * size)

    def _is_lost(self) -> bool:
        return self._loss > 0.0 and self._fabric.schedule.random.random() < self._loss


def number_of(path: str) -> int:
    """Return the number of a directory; -1 for one that no broker has."""
    number = path.removeprefix(path_of(0)[:-1])
    return int(number) if number.isdigit() else -1


def placing(
    world: World, options: Options, *, loss: float = 0.1, observer: SilentObserver | None = None
) -> Build:
    """Return a builder of daemons that place replicas; some requests and answers are lost."""
    is_delegated = options.engine is EngineName.DELEGATED
    rules = AlterRules(world, None) if is_delegated else None

    def build(ports: Ports) -> Reactor:
        inbox = cast("SimStore", ports.store).inbox
        return Reactor(
            view=ClusterView(options=options),
            store=ports.store,
            channels=ports.channels,
            configs=ports.configs,
            log_dirs=SimLogDirs(world.fabric, inbox, loss=loss),
            clock=ports.clock,
            observer=observer or SilentObserver(),
            reassignments=None if rules is None else SimAlterApi(world, inbox, rules, loss=loss),
            failpoints=NamedFailpoints(ports.reached),
            lease=ports.lease,
        )

    return build
