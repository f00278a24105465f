"""
Clients and brokers that authenticate, where they see the daemon as the controller.

Each connection is relayed to a broker, which knows the passwords and the rights; the daemon knows
neither. Brokers ask for changes of the ISR in the same way.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    AdminClient,
    NewTopic,
)
from kafka.protocol.admin import AlterPartitionReassignmentsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from controller.brokers.frames import frame_of
from controller.brokers.messages import AlterPartitionRequest, ControlledShutdownRequest
from controller.endpoint import codec, relayed_frames
from controller.endpoint.relay import with_length
from controller.kafka_errors import NOT_CONTROLLER
from integration.rigs.kafka_jars import KAFKA_2_7, KAFKA_3_9, Release
from integration.rigs.kafka_tools import REASSIGN_PARTITIONS, TOPICS
from integration.rigs.locked_clusters import ACLS, LockedCluster, LockedOptions
from integration.rigs.locks import CLIENT, DAEMON, SCRAM, Locks
from integration.rigs.plans import await_end, await_tenure, configured, fill, plan_of, specs
from integration.rigs.reserved_ports import LOCALHOST, ReservedPort
from integration.rigs.running_daemons import controller_epoch
from integration.rigs.servers import BrokerOptions
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually
from integration.test_endpoint_clients import DAEMON_ID, PUBLIC, sees_daemon
from integration.test_locked_clusters import allow_as_documented

BROKERS = BrokerOptions(inter_broker_protocol=None)
"""At their highest protocol: their leaders ask for changes of the ISR."""
UNAUTHORISED: Final = 31
VICTIMS: Final = 4
LONG: Final = 50_000
"""Partitions of a request that takes seconds to decode."""


class Strangers:
    """Clients that authenticate, may do nothing, and send what only brokers and operators may."""

    def __init__(self, port: int, user: str, password: str, requests: list[bytes]) -> None:
        self._port = port
        self._login = f"\0{user}\0{password}".encode()
        self._requests = requests
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(6)]
        self.errors: Counter[tuple[int, int]] = Counter()
        """By API key and error, how often a request was answered so; 0: the connection ended."""

    def __enter__(self) -> Self:
        """Begin to send."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _send(self, number: int) -> None:
        while not self._is_over.wait(0.05):
            try:
                with socket.create_connection((LOCALHOST, self._port), timeout=20) as connection:
                    self._authenticate(connection)
                    while not self._is_over.wait(0.002):
                        number += 1
                        self._exchange(connection, self._requests[number % len(self._requests)])
            except OSError:
                continue

    def _authenticate(self, connection: socket.socket) -> None:
        for message in (
            SaslHandshakeRequest(version=1, mechanism="PLAIN"),
            SaslAuthenticateRequest(version=0, auth_bytes=self._login),
        ):
            connection.sendall(with_length(encoded(message)))
            answer_of(connection)

    def _exchange(self, connection: socket.socket, request: bytes) -> None:
        header = codec.header_of(request)
        connection.sendall(with_length(request))
        try:
            answer = answer_of(connection)
        except OSError:
            self.errors[header.api_key, 0] += 1
            raise
        is_brokers = header.api_key in codec.OF_BROKERS
        error_of = relayed_frames.error_for_broker if is_brokers else relayed_frames.first_error
        self.errors[header.api_key, error_of(header, answer) or 0] += 1


def answer_of(connection: socket.socket) -> bytes:
    """Return the next answer, without its length."""
    (size,) = struct.unpack(">i", exactly(connection, 4))
    return exactly(connection, size)


def exactly(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes."""
    found = connection.recv(size, socket.MSG_WAITALL)
    if len(found) < size:
        raise ConnectionResetError
    return found


def encoded(message: Any) -> bytes:  # noqa: ANN401 - kafka-python has no types
    """Return a frame without its length."""
    frame = frame_of(message)
    frame.with_header(correlation_id=7, client_id="a stranger")
    found: bytes = frame.encode(framed=False)
    return found


def harmful(topic: str) -> list[bytes]:
    """Return requests each of which would harm a topic if it were carried out."""
    shut = [
        ControlledShutdownRequest(version=version, broker_id=broker, broker_epoch=-1)
        for broker in (1, 2, 3)
        for version in (1, 3)
    ]
    rows = [(n, 0, [1], 0, 0) for n in range(VICTIMS)]
    short = [(n, 0, [1], 0) for n in range(VICTIMS)]
    shrunk = AlterPartitionRequest(version=0, broker_id=1, broker_epoch=-1, topics=[(topic, short)])
    filling = [(n, 0, [1], 0, 0) for n in range(LONG)]
    long = AlterPartitionRequest(
        version=1, broker_id=1, broker_epoch=-1, topics=[(topic, rows), ("filling", filling)]
    )
    moved = AlterPartitionReassignmentsRequest(
        version=0, timeout_ms=1000, topics=[(topic, [(n, [1]) for n in range(VICTIMS)])]
    )
    return [encoded(message) for message in (*shut, shrunk, moved, long, moved)]


@pytest.mark.parametrize("release", [KAFKA_3_9, KAFKA_2_7], ids=lambda release: release.kafka)
def test_who_has_no_rights_changes_nothing_around_a_claim(release: Release, tmp_path: Path) -> None:
    """Before it, with it, during the tenure and after it, with requests short and long."""
    locks = Locks(protocol="SASL_PLAINTEXT", mechanism="PLAIN", zookeeper_sasl=None)
    broker = BrokerOptions(release=release, inter_broker_protocol=None)
    port = ReservedPort()
    with LockedCluster.running(LockedOptions(locks=locks, broker=broker)) as cluster:
        allow_as_documented(cluster)
        victim = cluster.create_topic("victim", dict.fromkeys(range(VICTIMS), (1, 2, 3)))
        moved = cluster.create_topic("moved", {0: (1, 2)})
        before = [cluster.state(victim, n) for n in range(VICTIMS)]
        options = (*PUBLIC, *cluster.serve_clients(), "--endpoint-listen", port.address)
        daemon = cluster.make_daemon("first", *options)
        daemon.start()
        password = cluster.keys.passwords[CLIENT]
        with Strangers(port.number, CLIENT, password, harmful(victim)) as strangers:
            for number, target in enumerate([(2, 3), (3, 1), (1, 2)]):
                eventually(
                    lambda: sum(strangers.errors.values()) > 100 * (number + 1),  # noqa: B023 - asked at once
                    within_s=120,
                    what=lambda: f"they are answered: {strangers.errors}",
                )
                plan = tmp_path / f"plan-{number}.json"
                plan.write_text(json.dumps(plan_of({(moved, 0): target})))
                said = cluster.reassigner("execute", str(plan))
                assert said.code == 0, said.stdout
                await_end(cluster, {(moved, 0): target}, within_s=120)
                eventually(
                    lambda: cluster.controller() != DAEMON_ID,
                    within_s=60,
                    what="a broker has the role again",
                )
        assert [cluster.state(victim, n) for n in range(VICTIMS)] == before
        assert [cluster.replicas(victim, n) for n in range(VICTIMS)] == [[1, 2, 3]] * VICTIMS
        answered = {error for _, error in strangers.errors}
        assert {UNAUTHORISED, NOT_CONTROLLER} <= answered <= {UNAUTHORISED, NOT_CONTROLLER, 0}
        assert daemon.stop() == 0, daemon.log_tail()
    port.close()


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SASL_SSL", SCRAM), ("SASL_PLAINTEXT", SCRAM), ("SASL_PLAINTEXT", "PLAIN")],
)
def test_brokers_authenticate_and_authorise_who_sends_the_daemon_requests(
    protocol: str, mechanism: str, tmp_path: Path
) -> None:
    """Who may not alter the cluster is refused, by a broker's own words; brokers may ask."""
    locks = Locks(protocol=protocol, mechanism=mechanism, zookeeper_sasl=None)
    with LockedCluster.running(LockedOptions(locks=locks, broker=BROKERS)) as cluster:
        allow_as_documented(cluster)
        cluster.allow(DAEMON, "--topic", "*", "--operation", "Describe")
        altering = ("--cluster", "--operation", "Alter", "--force")
        revoked = ("--remove", "--allow-principal", f"User:{DAEMON}", *altering)
        assert cluster.run_admin_tool(ACLS, *revoked).code == 0
        topic = cluster.create_topic("moved", dict.fromkeys(range(4), (1, 2)))
        targets = {(topic, n): (3, 1) if n % 2 else (2, 3) for n in range(4)}
        other = cluster.create_topic("other", {0: (1, 2)})
        fill(cluster, targets)
        plan, later = tmp_path / "plan.json", tmp_path / "later.json"
        plan.write_text(json.dumps(plan_of(targets)))
        later.write_text(json.dumps(plan_of({(other, 0): (2, 3)})))
        with Traffic(
            cluster.bootstrap_servers, {topic: 4}, security=cluster.client_security
        ) as traffic:
            traffic.await_flow()
            daemon = cluster.make_daemon("first", *PUBLIC, *cluster.serve_clients())
            daemon.start()
            for command in (("throttle", "10KB"), ("execute", str(plan))):
                said = cluster.reassigner(*command)
                assert said.code == 0, said.stdout
            await_tenure(daemon)
            eventually(lambda: configured(cluster, "brokers/3"), within_s=20, what="it is limited")
            eventually(lambda: sees_daemon(cluster), within_s=20)

            listed = cluster.run_tool_as(DAEMON, REASSIGN_PARTITIONS, "--list").stdout
            assert f"{topic}-0: replicas: 2,3,1. adding: 3. removing: 1." in listed
            execute = ("--reassignment-json-file", str(later), "--execute", "--additional")
            refused = cluster.run_tool_as(DAEMON, REASSIGN_PARTITIONS, *execute).stdout
            assert f"{other}-0: Request" in refused
            assert "is not authorized." in refused
            assert f"{other}-0" not in specs(cluster)
            cluster.allow(DAEMON, "--cluster", "--operation", "Alter")
            started = cluster.run_tool_as(DAEMON, REASSIGN_PARTITIONS, *execute).stdout
            assert "Successfully started partition reassignment for other-0" in started

            said = cluster.reassigner("throttle", "100MB")
            assert said.code == 0, said.stdout
            await_end(cluster, {**targets, (other, 0): (2, 3)}, within_s=60)
            traffic.await_flow()
            traffic.stop()
        assert traffic.failed == {}
        found = traffic.audited()
        assert found.is_clean, str(found)
        assert daemon.stop() == 0, daemon.log_tail()


def test_who_may_not_create_topics_moves_no_role(tmp_path: Path) -> None:
    """
    A client without rights waits as if the daemon were not there; one with rights is served.

    By the daemon, as far as it may ask brokers what it needs; else by Kafka's controller.
    """
    locks = Locks(protocol="SASL_PLAINTEXT", mechanism="PLAIN", zookeeper_sasl=None)
    with LockedCluster.running(LockedOptions(locks=locks, broker=BROKERS)) as cluster:
        allow_as_documented(cluster)
        cluster.withdraw(DAEMON, "--cluster", "--operation", "DescribeConfigs")
        cluster.withdraw(DAEMON, "--topic", "*", "--operation", "AlterConfigs")
        topic = cluster.create_topic("moved", {0: (1, 2)})
        fill(cluster, [(topic, 0)])
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(plan_of({(topic, 0): (2, 3)})))
        # The copy may end before all is asked.
        permanent = ("--tenure", "permanent")
        daemon = cluster.make_daemon("first", *PUBLIC, *permanent, *cluster.serve_clients())
        daemon.start()
        for command in (("throttle", "1KB"), ("execute", str(plan))):
            said = cluster.reassigner(*command)
            assert said.code == 0, said.stdout
        await_tenure(daemon)
        eventually(lambda: sees_daemon(cluster), within_s=20)
        epoch = controller_epoch(cluster)
        stranger = AdminClient(
            {"bootstrap.servers": cluster.bootstrap_servers, **cluster.keys.client_security(DAEMON)}
        )
        with pytest.raises(KafkaException, match="NOT_CONTROLLER"):
            stranger.create_topics([NewTopic("theirs", 1, 1)])["theirs"].result(timeout=60)
        assert cluster.controller() == DAEMON_ID
        assert controller_epoch(cluster) == epoch
        cluster.allow(DAEMON, "--cluster", "--operation", "Create")
        made = cluster.run_tool_as(
            DAEMON, TOPICS, "--create", "--topic", "ours", "--partitions", "1"
        )
        assert made.code == 0, made.stdout
        assert cluster.topic("ours") is not None
        assert cluster.topic("theirs") is None
        assert controller_epoch(cluster) > epoch
        # The daemon may not see the brokers' defaults for new topics before.
        cluster.allow(DAEMON, "--cluster", "--operation", "DescribeConfigs")
        eventually(lambda: sees_daemon(cluster), within_s=60, what="the daemon has the role again")
        epoch = controller_epoch(cluster)
        more = ("--create", "--topic", "more", "--partitions", "1")
        made = cluster.run_tool_as(DAEMON, TOPICS, *more, "--config", "retention.ms=5")
        assert made.code == 0, made.stdout
        assert controller_epoch(cluster) > epoch
        cluster.allow(DAEMON, "--topic", "*", "--operation", "AlterConfigs")
        eventually(lambda: sees_daemon(cluster), within_s=60, what="the daemon has the role again")
        epoch = controller_epoch(cluster)
        last = ("--create", "--topic", "last", "--partitions", "1")
        made = cluster.run_tool_as(DAEMON, TOPICS, *last, "--config", "retention.ms=5")
        assert made.code == 0, made.stdout
        assert cluster.read("/config/topics/last") == {
            "version": 1,
            "config": {"retention.ms": "5"},
        }
        assert controller_epoch(cluster) == epoch
