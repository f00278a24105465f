"""
The interface of a rig for the contracts of the store: one daemon's store, and other clients.

A subclass of a suite provides the fixture ``store_factory``: each call gives one daemon's store,
with its own session and inbox, on one and the same ZooKeeper that holds nothing else. Nothing here
sleeps: ``wait_for`` knows how time passes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol, TypeVar

import pytest

from controller.core.model import BrokerId, TopicPartition, ZkVersion
from controller.core.records import Event
from controller.core.role.records import ControllerClaimed
from controller.reactor.ports import Store
from controller.znodes import paths

AnyEvent = TypeVar("AnyEvent", bound=Event)

CONTROLLER_ID = BrokerId(1_000_000)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class StoreRig(Protocol):
    """A store under test, and the actions of all other clients of its ZooKeeper."""

    @property
    def store(self) -> Store:
        """The store; its controller id is ``CONTROLLER_ID``, no other daemon competes."""
        ...

    def put(self, path: str, data: bytes = b"") -> None:
        """Create a persistent znode, its parents with it, or replace its data."""
        ...

    def remove(self, path: str) -> None:
        """Delete a znode without children."""
        ...

    def get(self, path: str) -> tuple[bytes, ZkVersion] | None:
        """Return a znode's data and version."""
        ...

    def hide(self, path: str) -> None:
        """Hide a znode from the store; it does not change otherwise."""
        ...

    def seize(self, broker: BrokerId) -> None:
        """Have a broker take ``/controller`` as its ephemeral, with the next epoch."""
        ...

    def write_as_controller(self, path: str, version: ZkVersion) -> bool:
        """Write a znode as a broker with a claim of this version; return whether it passed."""
        ...

    def expire(self) -> None:
        """Have ZooKeeper end the store's session."""
        ...

    def wait_for(
        self, kind: type[AnyEvent], accept: Callable[[AnyEvent], bool] = lambda _: True
    ) -> AnyEvent:
        """Return the next such event; earlier ones are forgotten. Fails when none comes soon."""
        ...

    def is_quiet(self, kind: type[Event]) -> bool:
        """Let some time pass; return whether no such event came."""
        ...


class Rigs:
    """The fixtures of every suite; subclasses provide the store."""

    @pytest.fixture
    def store_factory(self) -> Callable[[], StoreRig]:
        """Return a factory of rigs."""
        raise NotImplementedError

    @pytest.fixture
    def rig(self, store_factory: Callable[[], StoreRig]) -> StoreRig:
        """Return a store on a cluster that once had a controller, with topic t."""
        rig = store_factory()
        rig.put(paths.CONTROLLER_EPOCH, b"5")
        rig.put(paths.BROKER_IDS)
        rig.put(paths.TOPICS)
        rig.put(paths.topic_path("t"), json.dumps({"partitions": {"0": [1], "1": [2]}}).encode())
        return rig

    @pytest.fixture
    def claimed(self, rig: StoreRig) -> StoreRig:
        """Return a store that holds the claim."""
        rig.store.claim_controller()
        rig.wait_for(ControllerClaimed)
        return rig


def data_of(rig: StoreRig, path: str) -> bytes:
    """Return the data of a znode that has to exist."""
    found = rig.get(path)
    assert found is not None, path
    return found[0]
