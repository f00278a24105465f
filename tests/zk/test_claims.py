"""The controller role when things go wrong; what goes right is in the contract of the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from kazoo.exceptions import BadVersionError, ConnectionLoss, NoAuthError, RolledBackError
from kazoo.protocol.states import KazooState

from controller.core.model import BrokerId, ZkVersion
from controller.core.role.records import ClaimFailed, ControllerClaimed, Deposed
from controller.zk.claims import ATTEMPTS, Claims
from controller.zk.multis import Fence, epoch_check
from controller.znodes import paths
from controller.znodes.brokers_and_controller import encode_controller
from tests.zk.fakes import SESSION, WITHIN_S, FakeClient, FakeInbox, Stat, connected_session

US = BrokerId(1_000_000)
OTHER = SESSION + 1


class _Bench:
    """Claims on a fake client."""

    def __init__(self, *, grace_s: float = 0.0, timeout_s: float = WITHIN_S) -> None:
        self.client = FakeClient(timeout_s=timeout_s)
        self.client.put(paths.CONTROLLER_EPOCH, b"5")
        self.inbox = FakeInbox()
        self.fence: Fence | None = ()
        session = connected_session(self.client)
        self.claims = Claims(
            session,
            self.inbox,
            controller_id=US,
            now_ms=lambda: 0,
            leadership=lambda: self.fence,
            grace_s=grace_s,
        )
        session.add_listener(self.claims)

    def take(self, owner: int = SESSION) -> Callable[[], list[object]]:
        """Script a claim that succeeds: ours, or a broker's that was faster."""

        def take() -> list[object]:
            epoch = int(self.client.nodes[paths.CONTROLLER_EPOCH][0]) + 1
            self.client.put(paths.CONTROLLER_EPOCH, str(epoch).encode())
            self.client.put(paths.CONTROLLER, encode_controller(US, 0), owner=owner)
            stat: Stat = self.client.nodes[paths.CONTROLLER_EPOCH][1]
            return [stat, True, True]

        return take

    def held_by_a_broker(self) -> None:
        """Let a broker have the role, with the epoch that stands."""
        self.client.put(paths.CONTROLLER, encode_controller(BrokerId(1), 0), owner=OTHER)

    def settle(self) -> None:
        """Let the worker end the job it is at, and the look that a claim ends with."""
        (worker,) = self.claims.threads()
        for _ in range(2):
            idle = threading.Event()
            worker.put(idle.set)
            assert idle.wait(WITHIN_S)

    def replace(self) -> Callable[[], list[object]]:
        """Script that ``/controller`` becomes ours, and nothing else."""

        def replace() -> list[object]:
            self.client.put(paths.CONTROLLER, encode_controller(US, 0), owner=SESSION)
            return [True, True, True]

        return replace

    def bump(self) -> Callable[[], list[object]]:
        """Script that the epoch becomes the next one, and nothing else."""

        def bump() -> list[object]:
            epoch = int(self.client.nodes[paths.CONTROLLER_EPOCH][0]) + 1
            self.client.put(paths.CONTROLLER_EPOCH, str(epoch).encode())
            stat: Stat = self.client.nodes[paths.CONTROLLER_EPOCH][1]
            return [stat, True]

        return bump

    def vacate(self) -> Callable[[], list[object]]:
        """Script the deletion of ``/controller``."""

        def vacate() -> list[object]:
            del self.client.nodes[paths.CONTROLLER]
            self.client.fire(paths.CONTROLLER)
            return [True, True]

        return vacate


@pytest.fixture
def bench() -> Iterator[_Bench]:
    """Give a bench whose thread is ended."""
    bench = _Bench()
    yield bench
    bench.claims.stop()


def test_a_lost_race_is_run_again(bench: _Bench) -> None:
    """A broker took the vacant role first; it is seized then."""
    broker = bench.take(OTHER)

    def lose() -> list[object]:
        broker()
        return [BadVersionError()]

    bench.client.script.extend([lose, bench.replace(), bench.bump()])
    bench.claims.claim()
    assert bench.inbox.wait_for(ControllerClaimed).epoch == 7
    assert ("delete", paths.CONTROLLER, 0) in bench.client.committed[1]


def test_the_role_is_taken_from_a_broker_in_two_multis(bench: _Bench) -> None:
    """The epoch stays in the first, and the second holds only while the znode is ours."""
    bench.held_by_a_broker()
    bench.client.script.extend([bench.replace(), bench.bump()])
    bench.claims.claim()
    assert bench.inbox.wait_for(ControllerClaimed).epoch == 6
    replaced, claimed = bench.client.committed
    assert replaced[:2] == [
        ("check", paths.CONTROLLER_EPOCH, 0),
        ("delete", paths.CONTROLLER, 0),
    ]
    assert claimed == [
        ("set_data", paths.CONTROLLER_EPOCH, b"6", 0),
        ("check", paths.CONTROLLER, 1),
    ]
    assert bench.claims.held is not None
    assert bench.claims.held.version == 1


def test_in_a_race_one_multi_takes_the_role(bench: _Bench) -> None:
    """As with a vacant role, but for the broker's znode, which goes first."""
    bench.held_by_a_broker()
    bench.client.script.append(bench.take())
    bench.claims.claim(at_once=True)
    assert bench.inbox.wait_for(ControllerClaimed).epoch == 6
    (multi,) = bench.client.committed
    assert multi == [
        ("set_data", paths.CONTROLLER_EPOCH, b"6", 0),
        ("delete", paths.CONTROLLER, 0),
        ("create", paths.CONTROLLER, encode_controller(US, 0), {"ephemeral": True}),
    ]


@pytest.mark.parametrize("done", [True, False])
def test_a_first_multi_whose_answer_was_lost_is_no_claim(bench: _Bench, *, done: bool) -> None:
    """Whether it was done or not, the epoch is set by the second."""
    bench.held_by_a_broker()
    replace = bench.replace()

    def lose_the_answer() -> object:
        if done:
            replace()
        return ConnectionLoss()

    rest = [bench.bump()] if done else [bench.replace(), bench.bump()]
    bench.client.script.extend([lose_the_answer, *rest])
    bench.claims.claim()
    assert bench.inbox.wait_for(ControllerClaimed).epoch == 6
    assert not bench.client.script


@pytest.mark.parametrize("done", [True, False])
def test_a_second_multi_whose_answer_was_lost_is_found(bench: _Bench, *, done: bool) -> None:
    """Or made again, with no other znode of ours."""
    bench.held_by_a_broker()
    bump = bench.bump()

    def lose_the_answer() -> object:
        if done:
            bump()
        return ConnectionLoss()

    bench.client.script.extend([bench.replace(), lose_the_answer])
    bench.client.script.extend([] if done else [bench.bump()])
    bench.claims.claim()
    assert bench.inbox.wait_for(ControllerClaimed).epoch == 6
    assert not bench.client.script


def test_a_leadership_that_is_lost_in_the_grace_gives_the_role_back(bench: _Bench) -> None:
    """Our znode without a daemon would keep brokers from electing."""
    bench.held_by_a_broker()
    bench.fence = (epoch_check(ZkVersion(3)),)
    gone = threading.Event()
    vacate = bench.vacate()

    def note() -> list[object]:
        results = vacate()
        gone.set()
        return results

    bench.client.script.extend([bench.replace(), [BadVersionError()], note])
    bench.claims.claim()
    assert bench.inbox.wait_for(ClaimFailed).reason == "another daemon leads"
    assert gone.wait(WITHIN_S)
    assert paths.CONTROLLER not in bench.client.nodes
    assert [multi[0] for multi in bench.client.committed[:2]] == [("check", paths.EPOCH, 3)] * 2


def test_a_session_that_ends_in_the_grace_ends_the_attempt() -> None:
    """The znode went with it: a broker elected since is deposed like any other."""
    bench = _Bench()
    bench.held_by_a_broker()
    replace = bench.replace()

    def expire() -> list[object]:
        results = replace()
        bench.client.put(paths.CONTROLLER_EPOCH, b"6")
        bench.client.put(paths.CONTROLLER, encode_controller(BrokerId(2), 0), owner=OTHER)
        return results

    bench.client.script.extend([expire, bench.replace(), bench.bump()])
    bench.claims.claim()
    assert bench.inbox.wait_for(ControllerClaimed).epoch == 7
    assert len(bench.client.committed) == 3
    bench.claims.stop()


def test_a_daemon_that_stops_in_the_grace_does_not_fence_the_broker() -> None:
    """The broker that is at an event would be fenced for nothing."""
    bench = _Bench(grace_s=600.0)
    bench.held_by_a_broker()
    replaced = threading.Event()
    replace = bench.replace()

    def note() -> list[object]:
        results = replace()
        replaced.set()
        return results

    bench.client.script.append(note)
    bench.claims.claim()
    assert replaced.wait(WITHIN_S)
    bench.claims.stop()
    assert len(bench.client.committed) == 1
    assert bench.inbox.wait_for(ClaimFailed).reason == "the daemon is stopping"


def test_races_are_not_run_for_ever(bench: _Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop decides when to try again. Candidates that race make way for each other."""
    bench.client.script.extend([[BadVersionError()]] * ATTEMPTS)
    pauses: list[float] = []
    (worker,) = bench.claims.threads()
    # On a slow machine the elapsed time does not show whether there was a pause.
    monkeypatch.setattr(worker, "pause", pauses.append)
    bench.claims.claim()
    assert "others" in bench.inbox.wait_for(ClaimFailed).reason
    assert bench.claims.held is None
    assert len(pauses) == ATTEMPTS - 1
    assert all(0.02 <= seconds <= 0.1 for seconds in pauses)


def test_a_claim_ends_where_its_answer_is_lost_and_no_connection_returns() -> None:
    """Whether it was made cannot be read; the loop claims again when there is a connection."""
    bench = _Bench(timeout_s=0.05)

    def disconnect() -> object:
        bench.client.listener(KazooState.SUSPENDED)
        return ConnectionLoss()

    bench.client.script.append(disconnect)
    bench.claims.claim()
    reason = bench.inbox.wait_for(ClaimFailed).reason
    assert reason == "the connection to ZooKeeper is gone"
    bench.client.reconnect()
    bench.claims.stop()


def test_a_kraft_controller_is_never_deposed(bench: _Bench) -> None:
    """Its znode is not ephemeral: the cluster is being migrated."""
    bench.client.put(paths.CONTROLLER, encode_controller(BrokerId(3000), 0), owner=0)
    bench.claims.claim(at_once=True)
    reason = bench.inbox.wait_for(ClaimFailed).reason
    assert reason == "/controller belongs to a KRaft controller (3000)"
    assert not bench.client.committed


@pytest.mark.parametrize("znode", [paths.CONTROLLER, paths.CONTROLLER_EPOCH])
def test_no_role_is_claimed_that_cannot_be_understood(bench: _Bench, znode: str) -> None:
    """What it fences, or whom, is not known."""
    bench.client.put(znode, b"?", owner=OTHER)
    bench.claims.claim(at_once=True)
    reason = bench.inbox.wait_for(ClaimFailed).reason
    assert reason.startswith(f"{znode} cannot be decoded")
    assert not bench.client.committed


def test_a_claim_whose_answer_was_lost_is_found(bench: _Bench) -> None:
    """Ours by owner and epoch; not claimed twice."""
    take = bench.take()

    def lose_the_answer() -> object:
        take()
        return ConnectionLoss()

    bench.client.script.append(lose_the_answer)
    bench.claims.claim()
    assert bench.inbox.wait_for(ControllerClaimed).epoch == 6
    assert bench.claims.held is not None
    assert bench.claims.held.version == 1


def test_a_request_that_was_lost_is_made_again(bench: _Bench) -> None:
    """Nothing of it was done."""
    bench.client.script.extend([ConnectionLoss(), bench.take()])
    bench.claims.claim()
    assert bench.inbox.wait_for(ControllerClaimed).epoch == 6


def test_a_session_that_ends_meanwhile_takes_the_claim_with_it(bench: _Bench) -> None:
    """And the znode that still exists is deleted: no daemon owns it."""
    take = bench.take()

    def expire() -> list[object]:
        results = take()
        bench.claims.lost("expired")
        return results

    bench.client.script.extend([expire, bench.vacate()])
    bench.claims.claim()
    bench.inbox.wait_for(ClaimFailed)
    bench.claims.stop()
    assert bench.claims.held is None


def test_a_refusal_is_reported_with_its_reason(bench: _Bench) -> None:
    """Credentials that do not suffice are no race."""
    bench.client.script.append([RolledBackError(), NoAuthError()])
    bench.claims.claim()
    assert "NoAuth" in bench.inbox.wait_for(ClaimFailed).reason


def test_only_the_leading_daemon_claims(bench: _Bench) -> None:
    """Checked in the multi itself."""
    bench.fence = None
    bench.claims.claim()
    assert bench.inbox.wait_for(ClaimFailed).reason == "another daemon leads"
    bench.fence = (epoch_check(ZkVersion(3)),)
    bench.client.script.append([BadVersionError()])
    bench.claims.claim()
    assert bench.inbox.wait_for(ClaimFailed, count=2).reason == "another daemon leads"
    assert bench.client.committed[0][0] == ("check", paths.EPOCH, 3)


def test_a_loss_is_reported_once(bench: _Bench) -> None:
    """Whatever else is heard of it later."""
    bench.client.script.append(bench.take())
    bench.claims.claim()
    bench.inbox.wait_for(ControllerClaimed)
    bench.claims.lost("expired")
    bench.claims.connected(is_new=True)
    bench.claims.stop()
    assert bench.inbox.of(Deposed) == [Deposed("expired")]


def test_losing_the_leadership_gives_the_role_back(bench: _Bench) -> None:
    """A daemon without the permission must not keep another controller from the role."""
    bench.client.script.append(bench.take())
    bench.claims.claim()
    bench.inbox.wait_for(ControllerClaimed)
    bench.client.script.append(bench.vacate())
    bench.claims.resign_if_held()
    bench.inbox.wait_for(Deposed)
    assert paths.CONTROLLER not in bench.client.nodes
    bench.claims.resign_if_held()
    assert len(bench.inbox.of(Deposed)) == 1


def test_a_role_that_was_lost_while_disconnected_is_given_up_at_the_reconnection(
    bench: _Bench,
) -> None:
    """The watch went with the connection, so nothing else reports the loss."""
    bench.client.script.append(bench.take())
    bench.claims.claim()
    bench.inbox.wait_for(ControllerClaimed)
    bench.settle()
    bench.client.watches.clear()
    bench.held_by_a_broker()
    assert not bench.inbox.of(Deposed)
    bench.client.reconnect()
    assert bench.inbox.wait_for(Deposed).reason == "/controller is not ours any more"


def test_a_znode_of_a_lost_claim_whose_session_lives_on_is_deleted(bench: _Bench) -> None:
    """ZooKeeper was only silent for too long: brokers would wait for the session to end."""
    bench.client.script.append(bench.take())
    bench.claims.claim()
    bench.inbox.wait_for(ControllerClaimed)
    bench.client.script.append(bench.vacate())
    bench.claims.lost("silent")
    bench.settle()
    assert paths.CONTROLLER not in bench.client.nodes
    assert bench.inbox.of(Deposed) == [Deposed("silent")]


def test_a_znode_whose_deletion_was_not_answered_is_deleted_again(bench: _Bench) -> None:
    """The role was given back: a broker is to have it, and not at the end of the session."""
    bench.client.script.append(bench.take())
    bench.claims.claim()
    bench.inbox.wait_for(ControllerClaimed)
    bench.client.script.extend([ConnectionLoss(), bench.vacate()])
    bench.claims.resign()
    assert "ZooKeeper may not have heard" in bench.inbox.wait_for(Deposed).reason
    bench.settle()
    assert paths.CONTROLLER not in bench.client.nodes


def test_nothing_is_claimed_without_a_session(bench: _Bench) -> None:
    """A znode without an owner's session would never be deleted."""
    bench.client.client_id = None
    bench.claims.claim()
    assert bench.inbox.wait_for(ClaimFailed).reason == "there is no connection to ZooKeeper"
    assert not bench.client.committed
