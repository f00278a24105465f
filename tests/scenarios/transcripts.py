"""The transcript of a command: the writes and requests of a cluster's daemon."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from controller.core.model import TopicPartition
from controller.reactor.ports import AlterEntry, BrokerRequest
from tests.scenarios import descriptions
from tests.sim.daemons import SimDaemon
from tests.sim.world import World
from tests.sim.zookeeper import NO_SESSION, Transaction

CONTROLLER: Final = -1
"""The receiver of what is sent to the cluster's own controller."""
_ZXID: Final = re.compile(r"\b(cancel|legacy|queue|drain)-[0-9a-f]{16}\b")
"""Names that contain the zxid of a znode."""
METADATA: Final = "UpdateMetadata"
_KINDS: Final = (
    "LeaderAndIsr",
    METADATA,
    "StopReplica",
    "AlterPartitionReassignments",
    "AlterReplicaLogDirs",
)
"""In the order in which a broker gets them."""


class Sent(NamedTuple):
    """A request that brokers were sent, without its receivers."""

    kind: str
    subject: str
    content: str


class Transcript:
    """What was written and sent, in order."""

    def __init__(self, world: World) -> None:
        """Listen to a world."""
        self.daemons: list[SimDaemon] = []
        """The daemons so far, with those that crashed."""
        self.last_at = 0.0
        """When something was last written or sent."""
        self._world = world
        self._entries: list[str | tuple[Sent, set[int]]] = []
        self._sent: dict[Sent, set[int]] = {}
        """What was sent at the instant ``last_at``."""
        world.zookeeper.listeners.append(self._transacted)
        world.fabric.on_sent.append(self._requested)

    def clear(self) -> None:
        """Forget what was written and sent."""
        self._sent.clear()
        self._entries.clear()

    def lines(self) -> list[str]:
        """Return what was written and sent since the last ``clear``."""
        self._flush()
        lines = [entry if isinstance(entry, str) else _line(*entry) for entry in self._entries]
        return [_ZXID.sub(r"\1-ZXID", line) for line in lines]

    def _transacted(self, transaction: Transaction) -> None:
        lines = [line for change in transaction.written for line in descriptions.written(change)]
        if not lines or transaction.session == NO_SESSION:
            return
        self._flush()
        self.last_at = self._world.now
        writer = self._writer(transaction.session)
        if writer is None:
            first, *others = lines
            self._entries.append(f"write  {first}")
            self._entries += [
                f"     {' ' if line.startswith(' ') else '+'} {line}" for line in others
            ]
        else:
            self._entries += [f"{writer}: {' '.join(line.split())}" for line in lines]

    def _writer(self, session: int) -> str | None:
        """Return who has a session; None: the daemon that runs."""
        daemon = next((d for d in self.daemons if d.store.session.id == session), None)
        if daemon is not None:
            return None if daemon.is_alive else "session of the crashed daemon ends"
        brokers = self._world.brokers.values()
        return next(f"broker {b.id}" for b in brokers if b.session_id == session)

    def _requested(self, receiver: int, request: object) -> None:
        if self.last_at != self._world.now:
            self._flush()
        self.last_at = self._world.now
        if receiver == CONTROLLER:
            found = descriptions.altered(cast("Sequence[AlterEntry]", request))
        elif isinstance(request, Mapping):
            found = descriptions.placed(cast("Mapping[TopicPartition, str]", request))
        else:
            found = descriptions.requested(cast("BrokerRequest", request))
        for sent in found:
            self._sent.setdefault(Sent(*sent), set()).add(receiver)

    def _flush(self) -> None:
        """Note what was sent at one instant: one line for all brokers that got the same."""
        for sent, receivers in sorted(self._sent.items(), key=_by_kind):
            earlier = self._last_metadata(sent)
            if earlier is None:
                self._entries.append((sent, receivers))
            else:
                earlier.update(receivers)
        self._sent.clear()

    def _last_metadata(self, sent: Sent) -> set[int] | None:
        """
        Return the receivers of the same UpdateMetadata just before, if it is one.

        A broker gets it when it has answered the request before it: not all at one instant.
        """
        for entry in reversed(self._entries):
            if isinstance(entry, str) or entry[0].kind != METADATA:
                return None
            if entry[0] == sent:
                return entry[1]
        return None


def _by_kind(sent: tuple[Sent, set[int]]) -> tuple[int, str, list[int]]:
    request, receivers = sent
    return _KINDS.index(request.kind), request.subject, sorted(receivers)


def _line(sent: Sent, receivers: set[int]) -> str:
    kind, subject, content = sent
    brokers = "the controller" if CONTROLLER in receivers else descriptions.ids(sorted(receivers))
    about = " ".join(filter(None, (f"{kind:14}", subject)))
    return f"send   {about} to {brokers}: {content}"
