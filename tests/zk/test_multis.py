"""Fenced multis: what is sent, and what the answers mean."""

from __future__ import annotations

import pytest
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from controller.core.core_settings import REQUEST_BYTES
from controller.core.model import ZkVersion
from controller.errors import CommitUnknownError, ControllerMovedError, SessionLostError
from controller.reactor.ports import (
    Check,
    Committed,
    Create,
    CreateSequential,
    Delete,
    Operation,
    Rejected,
    SetData,
    WriteError,
)
from controller.zk.multis import Multis, ancestors, claim_check, epoch_check
from controller.znodes import paths
from tests.zk.fakes import FakeClient, connected_session

FENCE = (claim_check(ZkVersion(4)), epoch_check(ZkVersion(2)))
OK = [True] * 9


def test_every_multi_is_led_by_the_fence() -> None:
    """An unfenced write cannot be spelled."""
    client = FakeClient()
    client.script.extend([OK, OK])
    multis: list[list[Operation]] = [
        [Check("/c", ZkVersion(1)), SetData("/s", b"d", ZkVersion(2))],
        [Delete("/d", None), Delete("/e", ZkVersion(3))],
    ]
    results = Multis(connected_session(client)).commit(FENCE, multis)
    assert results == [Committed(), Committed()]
    fence = [("check", paths.CONTROLLER_EPOCH, 4), ("check", paths.EPOCH, 2)]
    assert client.committed == [
        [*fence, ("check", "/c", 1), ("set_data", "/s", b"d", 2)],
        [*fence, ("delete", "/d", -1), ("delete", "/e", 3)],
    ]


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (BadVersionError(), WriteError.BAD_VERSION),
        (NoNodeError(), WriteError.NO_NODE),
        (NodeExistsError(), WriteError.NODE_EXISTS),
        (NotEmptyError(), WriteError.NOT_EMPTY),
        (NoAuthError(), WriteError.NO_AUTH),
    ],
)
def test_the_culprit_is_counted_without_the_fence(error: Exception, meaning: WriteError) -> None:
    """The caller knows only its own operations."""
    client = FakeClient()
    rolled_back = [RolledBackError()] * 3
    client.script.append([*rolled_back, error, RuntimeInconsistency()])
    operations = [Check(path, ZkVersion(0)) for path in ("/a", "/b", "/c")]
    results = Multis(connected_session(client)).commit(FENCE, [operations])
    assert results == [Rejected(1, meaning)]


@pytest.mark.parametrize("index", [0, 1])
def test_a_fence_that_does_not_hold_means_another_is_in_charge(index: int) -> None:
    """Among the controllers or among our daemons."""
    client = FakeClient()
    client.script.append([*[RolledBackError()] * index, BadVersionError(), RuntimeInconsistency()])
    with pytest.raises(ControllerMovedError):
        Multis(connected_session(client)).commit(FENCE, [[Delete("/a", None)]])


def test_a_broken_connection_leaves_the_commit_unknown() -> None:
    """Any of the multis may be durable."""
    client = FakeClient()
    client.script.extend([OK, ConnectionLoss()])
    with pytest.raises(CommitUnknownError):
        Multis(connected_session(client)).commit(FENCE, [[], []])


def test_an_expired_session_is_reported_as_such() -> None:
    """The claim is gone with it."""
    client = FakeClient()
    client.script.append(SessionExpiredError())
    with pytest.raises(SessionLostError):
        Multis(connected_session(client)).commit(FENCE, [[]])


def test_what_zookeeper_would_hang_up_on_is_not_sent() -> None:
    """The largest operation is named; the other multis go their way."""
    client = FakeClient()
    client.script.append(OK)
    large = SetData("/l", b"x" * REQUEST_BYTES, ZkVersion(0))
    multis: list[list[Operation]] = [
        [SetData("/s", b"", ZkVersion(0)), large],
        [Delete("/a", None)],
    ]
    results = Multis(connected_session(client)).commit(FENCE, multis)
    assert results == [Rejected(1, WriteError.TOO_LARGE), Committed()]
    assert len(client.committed) == 1


def test_parents_are_made_once() -> None:
    """Until something says that they are gone."""
    client = FakeClient()
    multis = Multis(connected_session(client))
    creation = [[Create("/admin/reassignments/t/0", b"")]]
    parents = ["/admin", "/admin/reassignments", "/admin/reassignments/t"]
    client.script.extend([OK, OK, [RolledBackError(), RolledBackError(), NoNodeError()], OK])
    multis.commit(FENCE, creation)
    assert client.created == parents
    multis.commit(FENCE, creation)
    assert client.created == parents
    assert multis.commit(FENCE, creation) == [Rejected(0, WriteError.NO_NODE)]
    multis.commit(FENCE, creation)
    assert client.created == [*parents, *parents]


def test_parents_of_which_ever_more_are_made_are_not_remembered() -> None:
    """Every request has a directory of its own, and a daemon runs for years."""
    client = FakeClient()
    multis = Multis(connected_session(client))
    shard = [[Create("/reassigner/outcomes/r/ended-1-0-1", b"")]]
    client.script.extend([OK, OK])
    multis.commit(FENCE, shard)
    assert client.created == ["/reassigner", "/reassigner/outcomes", "/reassigner/outcomes/r"]
    multis.commit(FENCE, shard)
    assert client.created[3:] == ["/reassigner/outcomes/r"]


def test_a_sequential_znode_gets_a_name_of_its_own() -> None:
    """What brokers read to learn that settings changed."""
    client = FakeClient()
    client.script.append(OK)
    path = "/config/changes/config_change_"
    Multis(connected_session(client)).commit(FENCE, [[CreateSequential(path, b"x")]])
    assert client.committed[0][-1] == (
        "create",
        path,
        b"x",
        {"acl": OPEN_ACL_UNSAFE, "sequence": True},
    )


@pytest.mark.parametrize(
    ("path", "is_sensitive"),
    [
        ("/config/brokers/3", True),
        ("/config/users/ann", True),
        ("/delegation_token/tokens/x", True),
        ("/config/brokers", True),
        ("/config/topics/t", False),
        ("/config/brokers-of-mine", False),
        (paths.QUEUE, False),
    ],
)
def test_only_the_cluster_may_read_what_may_hold_passwords(
    path: str, *, is_sensitive: bool
) -> None:
    """As Kafka's ``SensitiveRootPaths``; everything else can be read by everybody there."""
    mine = make_acl("sasl", "kafka", all=True)
    everyone = make_acl("world", "anyone", read=True)
    client = FakeClient()
    client.acls[paths.TOPICS] = [mine, everyone]
    client.script.append(OK)
    Multis(connected_session(client)).commit(FENCE, [[Create(path, b"")]])
    acl = [mine] if is_sensitive else [mine, everyone]
    assert client.committed[0][-1] == ("create", path, b"", {"acl": acl})


def test_an_open_cluster_stays_open_where_passwords_may_stand() -> None:
    """It has no identities that could be all who may read."""
    client = FakeClient()
    client.script.append(OK)
    path = "/config/brokers/3"
    Multis(connected_session(client)).commit(FENCE, [[Create(path, b"")]])
    assert client.committed[0][-1] == ("create", path, b"", {"acl": OPEN_ACL_UNSAFE})


def test_what_a_raised_limit_has_room_for_is_sent() -> None:
    """The servers' ``jute.maxbuffer`` is the operator's to raise, and to name to us."""
    client = FakeClient()
    client.script.append(OK)
    large = SetData("/l", b"x" * (3 << 20), ZkVersion(0))
    multis = Multis(connected_session(client), request_bytes=4 << 20)
    assert multis.commit(FENCE, [[large], [large, large]]) == [
        Committed(),
        Rejected(0, WriteError.TOO_LARGE),
    ]


def test_kafkas_own_parents_are_never_made() -> None:
    """A topic that was deleted must not come back to life, empty."""
    assert list(ancestors("/brokers/topics/t/partitions/0/state")) == [
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0",
    ]
    assert list(ancestors("/brokers/ids/1")) == []
    assert list(ancestors("/config/topics/t")) == []
    assert list(ancestors("/config/changes/config_change_")) == []
    assert list(ancestors("/a")) == []
