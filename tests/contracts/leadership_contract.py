"""
The contract of the store for several daemons: one leads, and no other writes.

A subclass provides the fixture ``daemon_factory``: each call gives one more daemon's store, which
competes, on one and the same ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.core.model import RequestId, ZkVersion
from controller.core.role.records import ControllerClaimed, LeadershipGained, LeadershipLost
from controller.errors import ControllerMovedError
from controller.reactor.ports import Committed, Create, SetData
from controller.znodes import paths
from tests.contracts.rigs import StoreRig, data_of


class LeadershipContract:
    """The contract of several daemons that compete."""

    @pytest.fixture
    def daemon_factory(self) -> Callable[[], StoreRig]:
        """Return a factory of rigs of daemons."""
        raise NotImplementedError

    @pytest.fixture
    def leader(self, daemon_factory: Callable[[], StoreRig]) -> StoreRig:
        """Return a daemon that leads."""
        rig = daemon_factory()
        rig.put(paths.CONTROLLER_EPOCH, b"5")
        rig.put(paths.BROKER_IDS)
        rig.put(paths.TOPICS)
        rig.wait_for(LeadershipGained)
        return rig

    def test_one_of_several_leads(
        self, leader: StoreRig, daemon_factory: Callable[[], StoreRig]
    ) -> None:
        """The others wait, and cannot write."""
        standbys = [daemon_factory() for _ in range(2)]
        for standby in standbys:
            assert standby.is_quiet(LeadershipGained)
            with pytest.raises(ControllerMovedError):
                standby.store.commit([[Create(paths.outcome_path(RequestId("r")), b"")]])
        assert leader.is_quiet(LeadershipLost)

    def test_a_standby_takes_over_and_fences_the_leader(
        self, leader: StoreRig, daemon_factory: Callable[[], StoreRig]
    ) -> None:
        """The new leader reads the present records, and the former one cannot write."""
        standby = daemon_factory()
        leader.store.claim_controller()
        leader.wait_for(ControllerClaimed)
        before = int(data_of(leader, paths.EPOCH))
        leader.expire()
        leader.wait_for(LeadershipLost)
        standby.wait_for(LeadershipGained)
        assert int(data_of(leader, paths.EPOCH)) == before + 1
        with pytest.raises(ControllerMovedError):
            leader.store.commit([[Create("/a", b"")]])
        standby.store.claim_controller()
        standby.wait_for(ControllerClaimed)
        assert standby.store.commit([[Create("/b", b"")]]) == [Committed()]
        assert leader.get("/a") is None

    def test_the_leadership_fences_every_write(self, leader: StoreRig) -> None:
        """The fence holds also before the former leader learns of the new one."""
        leader.store.claim_controller()
        leader.wait_for(ControllerClaimed)
        leader.put("/a", b"")
        leader.put(paths.EPOCH, b"99")
        with pytest.raises(ControllerMovedError):
            leader.store.commit([[SetData("/a", b"x", ZkVersion(0))]])
        assert leader.get("/a") == (b"", 0)

    def test_paperwork_is_fenced_by_the_leadership_alone(self, leader: StoreRig) -> None:
        """The leader writes without being the controller; a former leader does not."""
        first, second = (Create(paths.outcome_path(RequestId(name)), b"") for name in ("r1", "r2"))
        assert leader.store.commit([[first]]) == [Committed()]
        leader.put(paths.EPOCH, b"99")
        with pytest.raises(ControllerMovedError):
            leader.store.commit([[second]])
        assert leader.get(second.path) is None
