"""The simulated store keeps the contract that the real one keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.core.model import BrokerId, ZkVersion
from controller.core.records import Event
from controller.reactor.ports import Check, Delete
from controller.znodes import paths
from controller.znodes.brokers_and_controller import encode_controller
from tests.contracts.leadership_contract import LeadershipContract
from tests.contracts.request_contract import RequestContract
from tests.contracts.rigs import CONTROLLER_ID, AnyEvent, StoreRig
from tests.contracts.store_contract import StoreContract
from tests.sim.builders import Recorder
from tests.sim.schedule import Schedule
from tests.sim.sessions import SimSession
from tests.sim.store import SimStore
from tests.sim.zookeeper import (
    NO_SESSION,
    AnyOperation,
    Make,
    Put,
    SimZooKeeper,
    TransactionFailedError,
)

SOON_S = 10.0


class _SimRig:
    """A store on a simulated ZooKeeper; time passes only in waits."""

    def __init__(
        self, zookeeper: SimZooKeeper, schedule: Schedule, *, competes: bool = False
    ) -> None:
        self._schedule = schedule
        self._zookeeper = zookeeper
        self._inbox = Recorder()
        self.store = SimStore(
            self._zookeeper,
            self._schedule,
            self._inbox,
            controller_id=CONTROLLER_ID,
            competes=competes,
        )
        if competes:
            self.store.compete()

    def put(self, path: str, data: bytes = b"") -> None:
        if self._zookeeper.get(path) is None:
            self._zookeeper.ensure(path, data)
        else:
            self._zookeeper.transact(NO_SESSION, [Put(path, data)])

    def remove(self, path: str) -> None:
        self._zookeeper.transact(NO_SESSION, [Delete(path, None)])

    def get(self, path: str) -> tuple[bytes, ZkVersion] | None:
        znode = self._zookeeper.get(path)
        return None if znode is None else (znode.data, ZkVersion(znode.version))

    def hide(self, path: str) -> None:
        self._zookeeper.hide(path)

    def seize(self, broker: BrokerId) -> None:
        session = SimSession(self._zookeeper, self._schedule)
        epoch = self._zookeeper.get(paths.CONTROLLER_EPOCH)
        assert epoch is not None
        operations: list[AnyOperation] = [
            Put(paths.CONTROLLER_EPOCH, str(int(epoch.data) + 1).encode())
        ]
        if self._zookeeper.get(paths.CONTROLLER) is not None:
            operations.append(Delete(paths.CONTROLLER, None))
        operations.append(Make(paths.CONTROLLER, encode_controller(broker, 0), ephemeral=True))
        self._zookeeper.transact(session.id, operations)

    def write_as_controller(self, path: str, version: ZkVersion) -> bool:
        check = Check(paths.CONTROLLER_EPOCH, version)
        try:
            self._zookeeper.transact(NO_SESSION, [check, Make(path, b"", ephemeral=False)])
        except TransactionFailedError:
            return False
        return True

    def expire(self) -> None:
        self.store.session.expire()

    def wait_for(
        self, kind: type[AnyEvent], accept: Callable[[AnyEvent], bool] = lambda _: True
    ) -> AnyEvent:
        end = self._schedule.now() + SOON_S
        while True:
            while self._inbox.events:
                event = self._inbox.events.pop(0)
                if isinstance(event, kind) and accept(event):
                    return event
            at = self._schedule.next_at()
            assert at is not None, f"no {kind.__name__} is to come"
            assert at <= end, f"no {kind.__name__} within {SOON_S} s"
            self._schedule.step()

    def is_quiet(self, kind: type[Event]) -> bool:
        end = self._schedule.now() + SOON_S
        while (at := self._schedule.next_at()) is not None and at <= end:
            self._schedule.step()
        return not self._inbox.of(kind)


class TestSimStore(StoreContract, RequestContract):
    """The contract on the simulated ZooKeeper, with delays of three seeds."""

    @pytest.fixture(params=[1, 2, 3])
    def store_factory(self, request: pytest.FixtureRequest) -> Callable[[], StoreRig]:
        """Return a factory of rigs."""
        zookeeper, schedule = SimZooKeeper(), Schedule(request.param)
        return lambda: _SimRig(zookeeper, schedule)


class TestSimLeadership(LeadershipContract):
    """The contract of several daemons, with delays of three seeds."""

    @pytest.fixture(params=[1, 2, 3])
    def daemon_factory(self, request: pytest.FixtureRequest) -> Callable[[], StoreRig]:
        """Return a factory of rigs of daemons that compete."""
        zookeeper, schedule = SimZooKeeper(), Schedule(request.param)
        return lambda: _SimRig(zookeeper, schedule, competes=True)
