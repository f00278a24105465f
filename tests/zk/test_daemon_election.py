"""What the leadership reports is in order; who leads is in the contract of the store."""

from __future__ import annotations

import threading

from controller.core.model import BrokerId, ControllerEpoch, ZkVersion
from controller.core.records import Event
from controller.core.role.records import ClaimFailed, ControllerClaimed, LeadershipLost
from controller.zk.daemon_election import Leadership
from controller.zk.store import ZkStore
from tests.zk.fakes import WITHIN_S, FakeClient, FakeInbox, connected_session

LOST = LeadershipLost("the session expired")
CLAIMED = ControllerClaimed(ControllerEpoch(4))


class _RacingInbox(FakeInbox):
    """Lets the leadership be lost on another thread while the news of a tenure is put."""

    def __init__(self) -> None:
        super().__init__()
        self.leadership: Leadership | None = None
        self.losing: threading.Thread | None = None

    def put(self, event: Event) -> None:
        """Add an event, later than one that the other thread can put by now."""
        if isinstance(event, ControllerClaimed) and self.leadership is not None:
            self.losing = threading.Thread(target=self.leadership.lost, args=(LOST.reason,))
            self.losing.start()
            self.losing.join(0.1)
        super().put(event)


def test_no_tenure_is_reported_after_the_leadership_was_lost() -> None:
    """The loop would work in it as a leader."""
    inbox = _RacingInbox()
    session = connected_session(FakeClient())
    inbox.leadership = leadership = Leadership(session, inbox, http="localhost:1")
    store = ZkStore(
        session,
        inbox,
        controller_id=BrokerId(1_000_000),
        now_ms=lambda: 0,
        leadership=leadership,
    )
    leadership._version = ZkVersion(4)
    store.begin_tenure()
    assert inbox.losing is not None
    inbox.losing.join(WITHIN_S)
    store.begin_tenure()
    store.stop()
    assert inbox.events == [CLAIMED, LOST, ClaimFailed("another daemon leads")]
