"""
Kafka's own ZooKeeper controller (2.4 and later), as far as it matters here: election and hand-over.

Every broker has one; at most one is active. What the active one does is ``kafka_duties``. A deposed
one notices late, as in Kafka: until then its connections still deliver what was queued, but it can
write nothing, since each of its writes checks the version of ``/controller_epoch``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.core.model import ControllerEpoch, ZkVersion
from controller.reactor.ports import SetData
from controller.znodes import paths
from controller.znodes.brokers_and_controller import encode_controller
from tests.sim.controller_endpoints import KafkaEndpoint
from tests.sim.kafka_duties import KafkaDuties
from tests.sim.zookeeper import Make, SessionExpiredError, TransactionFailedError

if TYPE_CHECKING:
    from tests.sim.brokers import SimBroker
    from tests.sim.fabric import Fabric

NOTICE_S: Final = (0.005, 0.5)
"""The time until a broker handles a change of ``/controller``."""
CONNECTED_S: Final = 0.2
"""The interval at which a broker without ZooKeeper retries."""


class KafkaController:
    """The controller of one broker."""

    def __init__(self, broker: SimBroker, fabric: Fabric) -> None:
        """Stand for election whenever the broker registers."""
        self._broker = broker
        self._fabric = fabric
        self.duties: KafkaDuties | None = None
        """The duties of the active controller; None while it is not active."""
        self.stands = True
        """True if it takes the role when it is free; a test may hold it back."""
        broker.started.append(self._started)
        broker.ended.append(self._end)
        if fabric.has_endpoint:
            broker.kafka_endpoint = KafkaEndpoint(fabric, self)

    @property
    def is_active(self) -> bool:
        """True if it believes to be the cluster's controller."""
        return self.duties is not None

    @property
    def is_running(self) -> bool:
        """True while the broker's process runs."""
        return self._broker.is_alive

    @property
    def is_connected(self) -> bool:
        """True while the broker has a connection to ZooKeeper."""
        return self._broker.is_connected

    def stand(self) -> None:
        """Stand for election again after having been held back."""
        self.stands = True
        self._look()

    def holds(self, session: int) -> bool:
        """Return whether it is active with this session."""
        return self.is_active and self._broker.session_id == session

    def _started(self) -> None:
        self._end()
        self._look()

    def _end(self) -> None:
        if self.duties is not None:
            self.duties.end()
            self.duties = None

    def _look(self) -> None:
        """Read ``/controller``; stand for election if it is absent (Kafka: ``Reelect``)."""
        session = self._broker.session
        if session is None or not self._broker.is_alive or not session.is_open:
            return
        incarnation = self._broker.incarnation
        if not session.is_connected:
            # Kafka's event thread blocks until ZooKeeper answers again.
            self._fabric.schedule.call_in(CONNECTED_S, lambda: self._look_again(incarnation))
            return

        def changed() -> None:
            self._fabric.schedule.call_between(*NOTICE_S, lambda: self._look_again(incarnation))

        watch = session.watch("controller", changed)
        controller = self._fabric.zookeeper.exists(paths.CONTROLLER, watch)
        if controller is None:
            self._end()
            if self.stands:
                self._elect()
        elif controller.ephemeral_owner != session.id:
            self._end()

    def _look_again(self, incarnation: int) -> None:
        if incarnation == self._broker.incarnation:
            self._look()

    def elect_at_once(self) -> bool:
        """Read ``/controller`` without the usual delay; return whether it took the role."""
        was_active = self.is_active
        self._look()
        return self.is_active and not was_active

    def _elect(self) -> None:
        zookeeper, session = self._fabric.zookeeper, self._broker.session_id
        zookeeper.ensure(paths.CONTROLLER_EPOCH, b"0")
        known = zookeeper.get(paths.CONTROLLER_EPOCH)
        if known is None:
            return
        epoch = ControllerEpoch(int(known.data) + 1)
        data = encode_controller(self._broker.id, int(self._fabric.schedule.now() * 1000))
        bump = SetData(paths.CONTROLLER_EPOCH, str(epoch).encode(), ZkVersion(known.version))
        try:
            zookeeper.transact(session, [bump, Make(paths.CONTROLLER, data, ephemeral=True)])
        except (TransactionFailedError, SessionExpiredError):
            return
        fence = ZkVersion(known.version + 1)
        self.duties = KafkaDuties(self._broker, self._fabric, epoch, fence)
        self.duties.begin()
