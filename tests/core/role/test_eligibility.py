"""The reasons that forbid the controller role in a cluster, each with its own text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.core_settings import EngineName, Options
from controller.core.model import BrokerEpoch, BrokerId
from controller.core.role.eligibility import choice_of, delegated_refusals, native_refusals
from controller.core.view import ClusterView
from tests.core.builders import Driver, broker, tp


def cluster(*topics_with_ids: str) -> ClusterView:
    """Return a cluster of three topics, some of which carry a topic id."""
    view = Driver({tp(0, name): (1, 2) for name in ("a", "b", "c")}).view
    for name in topics_with_ids:
        view.topics.by_name[name].topic_id = f"id-of-{name}"
    return view


def test_nothing_speaks_against_the_role_in_a_cluster_of_an_older_protocol() -> None:
    """Leaders write their ISR changes to ZooKeeper."""
    assert native_refusals(cluster()) == ()
    assert delegated_refusals(cluster()) == ()


@pytest.mark.parametrize(
    ("names", "begins"),
    [
        ("c", "topic c carries a topic id, "),
        ("cb", "topic b and 1 others carry a topic id, "),
        ("cba", "topic a and 2 others carry a topic id, "),
    ],
)
def test_topic_ids_show_protocol_2_8(names: str, begins: str) -> None:
    """One topic is named, and how many more there are."""
    (reason,) = native_refusals(cluster(*names))
    assert reason == f"{begins}which only inter-broker protocol 2.8 or later writes"


def test_features_of_registrations_show_protocol_2_7() -> None:
    """The brokers are named: they are the ones to look at."""
    view = cluster()
    for n in (2, 1):
        view.cluster.brokers[BrokerId(n)] = replace(
            view.cluster.brokers[BrokerId(n)], has_features=True
        )
    (reason,) = native_refusals(view)
    assert reason.startswith("broker 1,2 runs inter-broker protocol 2.7 or later")


def serving(*topics_with_ids: str) -> ClusterView:
    """Return a cluster of protocol 2.7 or later, of which the daemon serves the brokers."""
    view = cluster(*topics_with_ids)
    own = Endpoint("BROKERS", "controller", 9999, "PLAINTEXT")
    view.options = Options(endpoint=LiveBroker(BrokerId(1000000), BrokerEpoch(0), (own,)))
    for n, known in view.cluster.brokers.items():
        endpoints = (*known.endpoints, Endpoint("BROKERS", "localhost", 9100 + n, "PLAINTEXT"))
        view.cluster.brokers[n] = replace(known, endpoints=endpoints, has_features=True)
    return view


@pytest.mark.parametrize("names", ["", "ac", "abc"])
def test_endpoint_permits_the_role_at_every_protocol(names: str) -> None:
    """Leaders send their ISR changes to it; topics without an id get one."""
    assert native_refusals(serving(*names)) == ()


def test_endpoint_needs_a_listener_that_every_broker_has() -> None:
    """A broker looks the controller up under its own listener."""
    view = serving()
    view.cluster.brokers[BrokerId(3)] = broker(3)
    (reason,) = native_refusals(view)
    assert reason.startswith("broker 3 has no listener BROKERS")


def test_every_listener_of_a_public_endpoint_has_to_fit() -> None:
    """Clients look it up under theirs."""
    view = serving()
    entry = view.options.endpoint
    assert entry is not None
    brokers, clients = entry.endpoints[0], Endpoint("CLIENTS", "controller", 9999, "PLAINTEXT")
    both = replace(entry, endpoints=(brokers, clients))
    view.options = Options(endpoint=both, serves_clients=True)
    (reason,) = native_refusals(view)
    assert reason.startswith("broker 0,1,2,3,4,5,6 has no listener CLIENTS")


def test_endpoint_needs_the_protocol_of_the_brokers_listener() -> None:
    """Brokers connect by the protocol of their own listener."""
    view = serving()
    known = view.cluster.brokers[BrokerId(2)]
    changed = known.endpoints[-1]._replace(security_protocol="SASL_SSL")
    view.cluster.brokers[BrokerId(2)] = replace(known, endpoints=(*known.endpoints[:-1], changed))
    (reason,) = native_refusals(view)
    assert reason.startswith("the listener BROKERS of broker 2 has the protocol SASL_SSL")


def test_private_endpoint_needs_another_listener_for_clients() -> None:
    """They would take the daemon for a broker."""
    view = serving()
    for n, known in view.cluster.brokers.items():
        view.cluster.brokers[n] = replace(known, endpoints=known.endpoints[-1:])
    (reason,) = native_refusals(view)
    assert "has only the listener BROKERS" in reason


@pytest.mark.parametrize(
    ("racks", "expected"),
    [({}, None), ({1: "x"}, None), (dict.fromkeys(range(7), "x"), "x")],
    ids=["none", "some", "all"],
)
def test_daemon_is_announced_with_a_rack_where_all_brokers_have_one(
    racks: dict[int, str], expected: str | None
) -> None:
    """Else brokers of 2.8 and later would refuse to create topics by themselves."""
    view = serving()
    for n, rack in racks.items():
        known = view.cluster.brokers[BrokerId(n)]
        view.cluster.brokers[BrokerId(n)] = replace(known, rack=rack)
    assert [b.id for b in view.announced_brokers] == [*view.cluster.brokers, 1000000]
    assert view.announced_brokers[-1].rack == expected
    assert BrokerId(1000000) not in view.cluster.brokers


def test_the_id_of_a_broker_is_not_taken() -> None:
    """That broker would consider itself the controller."""
    view = cluster()
    view.options = Options(controller_id=BrokerId(3))
    (reason,) = native_refusals(view)
    assert reason.startswith("controller id 3 is the id of a broker")


@pytest.mark.parametrize(
    ("sign", "reason"),
    [
        ({"migration": "a KRaft controller leads"}, "/migration: a KRaft controller leads"),
        ({"controller_is_ephemeral": False}, "/controller is not an ephemeral znode"),
        ({"kraft_controller_epoch": 0}, "/controller names a KRaft controller epoch"),
    ],
)
def test_each_sign_of_kraft_forbids_both_engines(sign: dict[str, object], reason: str) -> None:
    """The brokers of a migration get their controller from elsewhere."""
    view = cluster()
    assert view.role_session.guards is not None
    view.role_session.guards = replace(view.role_session.guards, **sign)  # type: ignore[arg-type]
    for refusals in (native_refusals(view), delegated_refusals(view)):
        (given,) = refusals
        assert given.startswith(reason)


def test_a_cluster_without_a_controller_has_no_sign_of_kraft() -> None:
    """``/controller`` does not exist while none is elected."""
    view = cluster()
    assert view.role_session.guards is not None
    view.role_session.guards = replace(
        view.role_session.guards, controller_broker=None, controller_is_ephemeral=False
    )
    assert native_refusals(view) == ()


def test_the_choice_of_the_delegated_engine_has_its_reason() -> None:
    """The first sign against the role; later, that an engine is not changed back."""
    view = cluster("a")
    view.options = Options(engine=EngineName.AUTO)
    choice = choice_of(view)
    assert choice is not None
    assert choice[0] is EngineName.DELEGATED
    assert choice[1].startswith("topic a carries a topic id")
    view.role.engine = EngineName.DELEGATED
    view.topics.by_name["a"].topic_id = None
    assert choice_of(view) == (EngineName.DELEGATED, "it was chosen before")
