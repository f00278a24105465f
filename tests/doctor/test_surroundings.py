"""Tests of ``controller.doctor.environment_checks``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.core_settings import EngineName
from controller.core.model import BrokerId
from controller.core.role.records import ClaimGuardsRead
from controller.doctor.environment_checks import (
    NOTIFICATIONS_MAX,
    OPEN_ACL,
    clients_wait,
    daemons,
    eligibility,
    endpoint_modes,
    large_znodes,
    mixed_protocols,
    notifications,
    permissions,
    unguarded_disks,
    unreachable_brokers,
)
from controller.doctor.findings import Severity
from tests.core.builders import broker, replicas, tp
from tests.doctor.builders import SnapshotBuilder, found, subjects

TOPICS, ADMIN, ROOT = "/brokers/topics", "/admin", "/reassigner"
CLOSED = ("sasl:kafka:cdrwa", "world:anyone:r")


def modern(*ids: int) -> dict[BrokerId, LiveBroker]:
    """Return brokers 1 and 2, these of them with features."""
    return {BrokerId(b): replace(broker(b), has_features=b in ids) for b in (1, 2)}


def test_what_forbids_being_the_controller_is_found() -> None:
    """The same rules as the daemon's, with its id."""
    assert found(eligibility, SnapshotBuilder(1)) == []
    (finding,) = eligibility(SnapshotBuilder(1).with_znodes(brokers=modern(2)).build())
    assert "2.7 or later" in finding.evidence
    assert finding.severity is Severity.INFO
    assert "delegated" in finding.advice
    (finding,) = eligibility(SnapshotBuilder(7).with_parts(controller_id=7).build())
    assert "is the id of a broker" in finding.evidence


def listening(**protocols: str) -> dict[BrokerId, LiveBroker]:
    """Return brokers 1 and 2 of protocol 2.7 or later, with these listeners."""
    endpoints = tuple(Endpoint(n, "localhost", 9092, p) for n, p in protocols.items())
    return {BrokerId(b): replace(broker(b), endpoints=endpoints, has_features=True) for b in (1, 2)}


@pytest.mark.parametrize(
    ("listeners", "private", "public"),
    [
        (
            {"PLAINTEXT": "PLAINTEXT"},
            "not possible, broker 1,2 has one listener",
            "possible under PLAINTEXT",
        ),
        (
            {"IN": "SASL_SSL", "OUT": "SSL"},
            "possible under IN, OUT (name one that clients do not use)",
            "possible under IN (SASL_SSL: needs endpoint_certfile and endpoint_keyfile)",
        ),
        (
            {"IN": "SSL", "OUT": "SSL"},
            "possible under IN, OUT",
            "not possible, every common listener has SSL without SASL",
        ),
    ],
)
def test_modes_of_the_endpoint_follow_from_the_listeners(
    listeners: dict[str, str], private: str, public: str
) -> None:
    """Private needs a listener that clients do not use, public one whose logins can be relayed."""
    built = SnapshotBuilder().with_znodes(brokers=listening(**listeners))
    (finding,) = endpoint_modes(built.build())
    modes = finding.evidence.removeprefix("private: ").split("; public: ")
    assert (modes[0][: len(private)], modes[1][: len(public)]) == (private, public)
    assert "optional" in finding.advice


def test_modes_of_the_endpoint_need_a_listener_that_all_brokers_have() -> None:
    """With the same protocol; before protocol 2.7 none is needed."""
    assert found(endpoint_modes, SnapshotBuilder(1)) == []
    brokers = {
        **listening(A="SSL", B="SASL_SSL"),
        BrokerId(3): listening(A="SASL_SSL")[BrokerId(1)],
    }
    (finding,) = endpoint_modes(SnapshotBuilder().with_znodes(brokers=brokers).build())
    assert finding.evidence.count("not possible, no listener") == 2


@pytest.mark.parametrize(
    ("protocol", "lines"),
    [
        ("PLAINTEXT", 'endpoint_listener = "OUT"'),
        ("SASL_SSL", 'endpoint_listener = "OUT", endpoint_certfile = "FILE", endpoint_keyfile ='),
        ("SSL", None),
    ],
)
def test_the_public_endpoint_is_recommended_where_clients_wait(
    protocol: str, lines: str | None
) -> None:
    """With the lines to set; not of the delegated engine, nor where it is set already."""
    built = SnapshotBuilder().with_znodes(brokers=listening(OUT=protocol))
    built.with_parts(engine=EngineName.NATIVE, serves_clients=False)
    findings = list(clients_wait(built.build()))
    if lines is None:
        assert not findings
        return
    (finding,) = findings
    assert 'controller_endpoint = "public", endpoint_listen = "0.0.0.0:9095"' in finding.advice
    assert lines in finding.advice
    built.with_parts(engine=EngineName.DELEGATED)
    assert found(clients_wait, built) == []
    built.with_parts(engine=None)
    assert found(clients_wait, built) == [], "from protocol 2.7 on, the delegated engine works"
    older = SnapshotBuilder(1).with_parts(serves_clients=False)
    assert len(found(clients_wait, older)) == 1, "before that, the native one does"
    several = SnapshotBuilder().with_znodes(brokers=listening(IN=protocol, OUT=protocol))
    (finding,) = clients_wait(
        several.with_parts(engine=EngineName.NATIVE, serves_clients=False).build()
    )
    assert finding.advice.endswith("LISTENER is that of clients, of IN, OUT")
    built.with_parts(engine=EngineName.NATIVE, serves_clients=True)
    assert found(clients_wait, built) == []


def test_the_configured_endpoint_is_judged_as_the_daemon_judges_it() -> None:
    """With one that fits, the native engine is possible; advice is not repeated."""
    entry = replace(broker(9), endpoints=(Endpoint("IN", "host", 9095, "SSL"),))
    built = SnapshotBuilder().with_znodes(brokers=listening(IN="SSL", OUT="SSL"))
    built.with_parts(endpoint=entry, serves_clients=False)
    assert found(eligibility, built) == []
    (finding,) = endpoint_modes(built.build())
    assert "controller_endpoint is set" in finding.advice
    built.with_znodes(brokers=listening(IN="SASL_SSL", OUT="SSL"))
    (finding,) = eligibility(built.build())
    assert "has the protocol SASL_SSL" in finding.evidence


def test_an_endpoint_that_is_advertised_as_this_machine_is_found() -> None:
    """Unless the brokers are on this machine, too."""
    entry = replace(broker(9), endpoints=(Endpoint("IN", "127.0.0.1", 9095, "SSL"),))
    brokers = listening(IN="SSL", OUT="SSL")
    built = SnapshotBuilder().with_znodes(brokers=brokers).with_parts(endpoint=entry)
    assert found(eligibility, built) == []
    afar = Endpoint("IN", "kafka-2", 9092, "SSL")
    two = brokers[BrokerId(2)]
    brokers[BrokerId(2)] = replace(two, endpoints=(afar, two.endpoints[1]))
    (finding,) = eligibility(built.with_znodes(brokers=brokers).build())
    assert (finding.check, finding.severity) == ("endpoint_address", Severity.WARNING)
    assert "broker 2 is at kafka-2" in finding.evidence


def test_a_migration_forbids_either_engine() -> None:
    """Our work cannot go on."""
    guards = ClaimGuardsRead(BrokerId(3000), False, 5, False, "a KRaft controller is in charge")  # noqa: FBT003
    findings = list(eligibility(SnapshotBuilder(1).with_znodes(guards=guards).build()))
    assert {f.severity for f in findings} == {Severity.CRITICAL}


@pytest.mark.parametrize(("ids", "expected"), [((), []), ((1,), ["broker 1"]), ((1, 2), [])])
def test_an_upgrade_half_done_is_found(ids: tuple[int, ...], expected: list[str]) -> None:
    """Where all brokers are alike there is none."""
    built = SnapshotBuilder().with_znodes(brokers=modern(*ids))
    assert subjects(mixed_protocols, built) == expected


def test_no_daemon_is_critical_only_where_there_is_work() -> None:
    """Else it is a remark."""
    built = SnapshotBuilder(1)
    assert found(daemons, built) == []
    built.with_znodes(daemons=())
    assert [f.severity for f in daemons(built.build())] == [Severity.INFO]
    built.spec(tp(), (1,))
    assert [f.severity for f in daemons(built.build())] == [Severity.CRITICAL]


def test_a_leader_that_does_not_answer_is_found() -> None:
    """With what happened when it was asked."""
    built = SnapshotBuilder(1).with_parts(daemon_problem="refused")
    assert found(daemons, built) == [("daemon:8095", "the leading daemon does not answer: refused")]


def test_a_leader_that_brokers_refuse_says_so() -> None:
    """Only who holds the role can find out: the status of the daemon is asked."""
    built = SnapshotBuilder(1).with_parts(daemon_refusals=("3 of 3 live brokers refuse",))
    (finding,) = daemons(built.build())
    assert (finding.check, finding.severity) == ("daemon_refused", Severity.CRITICAL)
    assert finding.evidence.endswith("3 of 3 live brokers refuse")


def test_several_daemons_are_a_remark_and_a_shared_address_is_not() -> None:
    """A standby is as it should be; two that answer at one place are set up wrongly."""
    built = SnapshotBuilder(1).with_znodes(daemons=("a:1", "b:2"))
    assert [(f.check, f.severity) for f in daemons(built.build())] == [
        ("several_daemons", Severity.INFO)
    ]
    built.with_znodes(daemons=("a:1", "a:1"))
    assert [f.check for f in daemons(built.build())] == ["several_daemons", "shared_address"]


def test_notifications_that_pile_up_are_found() -> None:
    """A few are on their way."""
    counts = {"/isr_change_notification": NOTIFICATIONS_MAX}
    assert found(notifications, SnapshotBuilder(1).with_znodes(notifications=counts)) == []
    counts = {"/isr_change_notification": NOTIFICATIONS_MAX + 1}
    built = SnapshotBuilder(1).with_znodes(notifications=counts)
    assert subjects(notifications, built) == ["/isr_change_notification"]


def test_znodes_near_the_limit_are_found() -> None:
    """Before ZooKeeper refuses them."""
    sizes = {"/brokers/topics/a": 500_000, "/brokers/topics/b": 600_000}
    built = SnapshotBuilder(1).with_znodes(sizes=sizes)
    assert subjects(large_znodes, built) == ["/brokers/topics/b"]
    built.parts["jute_maxbuffer"] = 4 << 20
    assert subjects(large_znodes, built) == []


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ({TOPICS: OPEN_ACL, ADMIN: OPEN_ACL, ROOT: OPEN_ACL}, []),
        ({TOPICS: CLOSED, ADMIN: CLOSED, ROOT: CLOSED}, []),
        ({TOPICS: CLOSED, ADMIN: CLOSED, ROOT: OPEN_ACL}, [ROOT]),
        ({TOPICS: OPEN_ACL, ADMIN: OPEN_ACL, ROOT: CLOSED}, [ROOT]),
        ({TOPICS: OPEN_ACL, ADMIN: CLOSED, ROOT: CLOSED}, []),
    ],
)
def test_permissions_that_differ_from_kafkas_are_found(
    acls: dict[str, tuple[str, ...]], expected: list[str]
) -> None:
    """Open where Kafka's are closed, or closed where brokers have to get in."""
    assert subjects(permissions, SnapshotBuilder(1).with_znodes(acls=acls)) == expected


def test_replicas_of_the_builders_are_sound() -> None:
    """The cluster the tests spoil has nothing wrong with it."""
    built = SnapshotBuilder(1, 2).partition(tp(), (1, 2))
    assert built.build().znodes.topics["t"].partitions[0].replicas == replicas(1, 2)


def test_a_broker_that_the_controller_cannot_reach_is_critical() -> None:
    """What it is sent waits: by the daemon's own word."""
    built = SnapshotBuilder(1, 2).with_parts(unreachable={"2": "b2:9092: refused"})
    (finding,) = unreachable_brokers(built.build())
    assert (finding.subject, finding.severity) == ("broker 2", Severity.CRITICAL)
    assert "b2:9092: refused" in finding.evidence


def test_a_broker_without_known_free_space_is_a_warning() -> None:
    """A copy could fill its disk: the daemon reports it as unguarded."""
    built = SnapshotBuilder(1, 2).with_parts(unguarded={"2": "not authorized"})
    (finding,) = unguarded_disks(built.build())
    assert (finding.subject, finding.severity) == ("broker 2", Severity.WARNING)
    assert "not authorized" in finding.evidence
