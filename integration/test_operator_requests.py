"""Submissions and controls, as commands read and write them, on a real ZooKeeper."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from kazoo.security import ACL, make_acl, make_digest_acl

from controller.core.model import (
    BrokerId,
    OutcomeKind,
    PartitionOutcome,
    Refusal,
    RefusalReason,
    Replicas,
    RequestId,
    TopicPartition,
)
from controller.core.pacing.controls import (
    BrokerLimits,
    Controls,
    Drain,
    Drains,
    Limits,
    Pause,
    Pauses,
)
from controller.core.requests.outcomes import Part, Summary
from controller.core.requests.submissions import AcceptedEntry, Cancellation, RequestOptions
from controller.errors import (
    CancellationPendingError,
    InvalidInputError,
    ReassignmentConflictError,
)
from controller.setting_sources import load_settings
from controller.zk.operator_client import OperatorClient
from controller.znodes import paths
from controller.znodes.cancellations import KillSwitch
from controller.znodes.histories import encode_accepted, encode_ended, encode_outcome, encode_part
from controller.znodes.json_documents import TEXT_MAX
from controller.znodes.plans import submissions_of
from controller.znodes.reassignments import encode_spec
from integration.rigs.real_store import Chroot
from integration.rigs.servers import ZooKeeperServer
from integration.test_operator import GOAL

ONE, TWO, THREE = (TopicPartition("t", n) for n in range(3))
HERE: Replicas = (BrokerId(1), BrokerId(2))
THERE: Replicas = (BrokerId(2), BrokerId(3))
REQUEST = RequestId("request_0000000007")
HANDS = 6


@pytest.fixture
def place(zookeeper: ZooKeeperServer) -> Iterator[Chroot]:
    """Give a cluster without brokers and without a daemon."""
    if not zookeeper.is_alive:
        zookeeper.start()
    found = Chroot(zookeeper.address, f"/kafka-{uuid.uuid4().hex[:8]}")
    for path in (paths.BROKER_IDS, paths.TOPICS, paths.DELETIONS):
        found.put(path)
    yield found
    found.close()


def connected(place: Chroot) -> OperatorClient:
    """Return a connection as a verb has it."""
    return OperatorClient(load_settings({"zookeeper": place.hosts}, {}))


@pytest.fixture
def operator(place: Chroot) -> Iterator[OperatorClient]:
    """Give a connection as a verb has it."""
    with connected(place) as found:
        yield found


def at_once(place: Chroot, act: Callable[[OperatorClient, int], object]) -> None:
    """Run an action in several threads at the same time, and assert that none fails."""
    failed: list[BaseException] = []

    def one(number: int) -> None:
        try:
            with connected(place) as own:
                act(own, number)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test reports it
            failed.append(error)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(HANDS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_requests_get_their_names_in_turn(operator: OperatorClient, place: Chroot) -> None:
    """Their directory is made with the first one."""
    assert operator.requests.open() == []
    for number in range(2):
        (data,) = submissions_of({ONE: THERE}, RequestOptions(priority=number), REQUEST)
        assert operator.writes.submit(data) == f"request_{number:010d}"
    found = operator.requests.submissions([*operator.requests.open(), "request_0000000099"])
    assert [s and s.options.priority for s in found.values()] == [0, 1, None]
    first = found["request_0000000000"]
    assert first is not None
    assert first.entries == {ONE: THERE}
    assert first.created_ms > 1_600_000_000_000
    assert place.client.exists(f"{paths.REQUESTS}/request_0000000001") is not None


def test_two_hundred_thousand_partitions_are_submitted_as_one_request(
    operator: OperatorClient,
) -> None:
    """In parts that ZooKeeper takes; none is missing, none is there twice."""
    plan = {
        TopicPartition(f"orders-of-region-{t:03}", p): THERE
        for t in range(200)
        for p in range(1000)
    }
    written = operator.writes.submit_plan(plan, RequestOptions())
    own, names = written.request, list(written.names)
    assert len(names) > 1
    found: dict[TopicPartition, Replicas] = {}
    count = 0
    for submission in operator.requests.submissions(operator.requests.open()).values():
        assert submission is not None
        assert submission.request == own
        assert submission.options.parts == len(names)
        count += len(submission.entries)
        found |= submission.entries
    assert count == len(plan)
    assert found == plan


SECRET = {"zookeeper_auth_scheme": "digest", "zookeeper_auth_credential": "kafka:secret"}


def close_to_strangers(place: Chroot) -> list[ACL]:
    """Give the cluster's znodes an owner, and return their permissions."""
    acl = [
        make_digest_acl("kafka", "secret", all=True),
        make_acl("world", "anyone", read=True, create=True),
    ]
    place.client.add_auth("digest", "kafka:secret")
    place.client.set_acls(paths.TOPICS, acl)
    return acl


def test_what_is_created_has_the_permissions_of_the_cluster(place: Chroot) -> None:
    """Else the daemon or a broker could not change it; its new parents have them too."""
    acl = close_to_strangers(place)
    environ = {f"REASSIGNER_{name.upper()}": value for name, value in SECRET.items()}
    with OperatorClient(load_settings({"zookeeper": place.hosts}, environ)) as operator:
        operator.writes.edit_pauses(lambda _: Pauses(everything=Pause()))
        operator.writes.disable(KillSwitch())
        operator.writes.submit(submissions_of({ONE: THERE}, RequestOptions(), REQUEST)[0])
    for path in (paths.ROOT, paths.CONTROLS, paths.PAUSES, paths.KILL_SWITCH, paths.REQUESTS):
        assert place.client.get_acls(path)[0] == acl, path


def test_a_client_without_credentials_creates_no_znode_that_cannot_be_deleted(
    operator: OperatorClient, place: Chroot
) -> None:
    """ZooKeeper hides the digest from strangers; written as read it would lock everybody out."""
    close_to_strangers(place)
    with pytest.raises(InvalidInputError, match="authenticate as the brokers do"):
        operator.writes.disable(KillSwitch())
    assert place.client.exists(paths.KILL_SWITCH) is None


def test_a_cancellation_is_added_to_by_many_at_once(
    operator: OperatorClient, place: Chroot
) -> None:
    """No selection gets lost, and it keeps its identity."""
    base = Cancellation()
    first = operator.writes.cancel(replace(base, requests=frozenset({RequestId("r")})))

    def add(own: OperatorClient, number: int) -> None:
        wanted = replace(base, requests=frozenset({RequestId(f"r{number}")}), reason=f"w{number}")
        assert own.writes.cancel(wanted).request == first.request

    at_once(place, add)
    found = operator.requests.cancellation()
    assert found is not None
    assert found.czxid == first.czxid
    assert found.requests == {"r", *(f"r{n}" for n in range(HANDS))}
    assert sorted(found.reason.split("; ")) == [f"w{n}" for n in range(HANDS)]


def test_a_cancellation_waits_until_an_earlier_one_is_selected(
    operator: OperatorClient, place: Chroot
) -> None:
    """Combined, the earlier one would select what was submitted since."""
    base = Cancellation()
    first = operator.writes.cancel(base)
    later = replace(base, topics=frozenset({"t"}))
    with pytest.raises(CancellationPendingError, match=first.request):
        operator.writes.cancel(later, wait_s=0.3)
    found = operator.requests.cancellation()
    assert found is not None
    assert (found.version, found.is_everything) == (first.version, True)
    place.put(paths.part_path(first.request, "0"), b"recorded by a daemon")
    assert operator.writes.cancel(later, wait_s=0.3).topics == {"t"}


def test_everything_is_an_empty_node_as_kip_236_has_it(
    operator: OperatorClient, place: Chroot
) -> None:
    """Zero bytes, unless there is more to say."""
    operator.writes.cancel(Cancellation())
    assert place.client.get(paths.CANCEL)[0] == b""


def test_the_kill_switch_keeps_its_first_reason(operator: OperatorClient, place: Chroot) -> None:
    """Written by any client, in any form."""
    switch = KillSwitch("incident", "ann", 5)
    assert operator.writes.disable(switch) is None
    assert operator.writes.disable(KillSwitch("again")) == switch
    assert operator.requests.kill_switch() == switch
    assert operator.writes.enable()
    assert not operator.writes.enable()
    place.put(paths.KILL_SWITCH, b"by hand")
    found = operator.requests.kill_switch()
    assert found is not None
    assert found.reason == '"by hand"'
    assert found.since_ms > 1_600_000_000_000


def test_a_queue_is_written_once_and_taken_from_by_many(
    operator: OperatorClient, place: Chroot
) -> None:
    """Each entry leaves once, and the node with the last one."""
    queue = {TopicPartition("t", n): THERE for n in range(HANDS)}
    czxid = operator.writes.create_queue(queue)
    with pytest.raises(ReassignmentConflictError, match="exists already"):
        operator.writes.create_queue({ONE: HERE})
    found = operator.requests.queue()
    assert found is not None
    assert (found.czxid, found.entries) == (czxid, queue)
    taken: list[TopicPartition] = []
    at_once(
        place,
        lambda own, n: taken.extend(own.writes.take_from_queue([TopicPartition("t", n)])),
    )
    assert sorted(taken) == sorted(queue)
    assert operator.requests.queue() is None
    assert operator.writes.take_from_queue([ONE]) == frozenset()


def test_a_queue_that_cannot_be_read_is_only_cleared(
    operator: OperatorClient, place: Chroot
) -> None:
    """Nothing in it is overwritten unseen."""
    place.put(paths.QUEUE, b"nonsense")
    with pytest.raises(ReassignmentConflictError, match="cannot be changed"):
        operator.writes.take_from_queue([ONE])
    assert operator.writes.clear_queue() is not None
    assert operator.writes.clear_queue() is None


def test_controls_are_changed_by_many_at_once(operator: OperatorClient, place: Chroot) -> None:
    """No change gets lost; the rest is as it was."""
    assert operator.requests.controls() == Controls()

    def change(own: OperatorClient, number: int) -> None:
        broker = BrokerId(number)
        pause = Pause(f"why {number}", "ann", number)
        own.writes.edit_pauses(lambda p: replace(p, brokers={**p.brokers, broker: pause}))
        few = BrokerLimits(max_incoming=number + 1)
        own.writes.edit_limits(
            lambda limits: replace(limits, brokers={**limits.brokers, broker: few})
        )
        drain = Drain(f"why {number}", "ann", number)
        own.writes.edit_drains(lambda d: d.adding(drain, [broker]))

    at_once(place, change)
    assert operator.writes.set_throttle(50_000_000) is None
    assert operator.writes.set_throttle(20_000_000) == 50_000_000
    found = operator.requests.controls()
    numbers = range(HANDS)
    assert found.pauses.brokers == {n: Pause(f"why {n}", "ann", n) for n in numbers}
    assert found.limits.brokers == {n: BrokerLimits(max_incoming=n + 1) for n in numbers}
    drains = found.drains
    assert drains.brokers == {n: Drain(f"why {n}", "ann", n) for n in numbers}
    assert drains.version == HANDS - 1
    assert drains.request == f"drain-{place.client.exists(paths.DRAINS).czxid:016x}"
    at_once(place, lambda own, n: own.writes.edit_drains(lambda d: d.removing([BrokerId(n)])))
    assert place.client.exists(paths.DRAINS) is None, "deleted with the last broker"
    assert found.throttle == 20_000_000
    assert operator.writes.set_throttle(None) == 20_000_000
    assert operator.requests.controls().throttle is None


def test_controls_that_cannot_be_read_are_not_overwritten(
    operator: OperatorClient, place: Chroot
) -> None:
    """It may contain an operator's work; the reason is reported."""
    for path in (paths.PAUSES, paths.LIMITS, paths.DRAINS):
        place.put(path, b"nonsense")
    for edit in (
        lambda: operator.writes.edit_pauses(lambda _: Pauses()),
        lambda: operator.writes.edit_limits(lambda _: Limits()),
        lambda: operator.writes.edit_drains(lambda _: Drains()),
    ):
        with pytest.raises(ReassignmentConflictError, match="cannot be changed"):
            edit()
    unreadable = operator.requests.controls().unreadable
    assert set(unreadable) == {paths.PAUSES, paths.LIMITS, paths.DRAINS}


def test_what_the_daemon_would_not_read_is_not_written(
    operator: OperatorClient, place: Chroot
) -> None:
    """An unreadable control has no effect, and no later command could change it."""
    long = "x" * (TEXT_MAX + 1)
    for edit in (
        lambda: operator.writes.edit_pauses(lambda _: Pauses(everything=Pause(long))),
        lambda: operator.writes.edit_limits(lambda _: Limits(max_partitions_in_flight=2**31)),
        lambda: operator.writes.edit_drains(lambda d: d.adding(Drain(long), [BrokerId(1)])),
        lambda: operator.writes.cancel(Cancellation(reason=long)),
        lambda: operator.writes.submit_plan({ONE: THERE}, RequestOptions(reason=long)),
    ):
        with pytest.raises(InvalidInputError, match=r"reason is longer|max_partitions_in_flight"):
            edit()
    for path in (paths.PAUSES, paths.LIMITS, paths.CANCEL):
        assert place.client.exists(path) is None, path
    assert operator.requests.open() == []


def test_what_is_kept_of_requests_is_read_back(operator: OperatorClient, place: Chroot) -> None:
    """Parts, shards and the summary; what is broken is named, the rest is there."""
    assert operator.outcomes.histories() == {}
    refusal = Refusal(REQUEST, "t-1 -> [9]", RefusalReason.UNKNOWN_BROKER, "broker 9 is dead", TWO)
    ending = PartitionOutcome(REQUEST, THREE, OutcomeKind.ROLLED_BACK, by=RequestId("cancel-1"))
    wish = RequestOptions(reason="because", requested_by="ann")
    rows = tuple(AcceptedEntry(p, HERE, THERE) for p in (ONE, THREE))
    part = Part("request_0000000007", 3, 5, wish)
    children = {
        "part-request_0000000007": encode_part(part),
        "accepted-3-0-1": encode_accepted(rows[:1]),
        "accepted-3-1-1": encode_accepted(rows[1:]),
        "ended-3-2-2": encode_ended((refusal,), (ending,)),
        "ended-3-3-1": b"nonsense",
    }
    for name, data in children.items():
        place.put(f"{paths.history_path(REQUEST)}/{name}", data)
    history = operator.outcomes.histories()[REQUEST]
    assert history.parts == {"request_0000000007": part}
    assert history.options == wish
    assert (history.accepted, history.total) == (2, 3)
    assert (history.refused, history.endings) == ((refusal,), (ending,))
    assert list(history.unreadable) == ["ended-3-3-1"]
    kept = operator.outcomes.accepted_entries(REQUEST)
    assert tuple(replace(entry, recorded_in=None) for entry in kept) == rows
    assert operator.outcomes.ended_requests() == {REQUEST: False}
    summary = Summary(request=REQUEST, kind="request", total=3, done=1, refused=(refusal,))
    place.put(paths.outcome_path(REQUEST), encode_outcome(summary))
    assert operator.outcomes.outcome(REQUEST) == summary
    assert operator.outcomes.histories([REQUEST])[REQUEST].summary == summary
    assert operator.outcomes.ended_requests() == {REQUEST: True}


def test_histories_are_in_the_order_of_their_making(
    operator: OperatorClient, place: Chroot
) -> None:
    """The oldest first; unknown names are absent."""
    for name in ("request_0000000009", "legacy-1", "cancel-2"):
        place.put(f"{paths.OUTCOMES}/{name}")
    assert list(operator.outcomes.histories()) == ["request_0000000009", "legacy-1", "cancel-2"]
    assert operator.outcomes.histories([RequestId("nobody")]) == {}


def test_partitions_with_a_record_are_listed(operator: OperatorClient, place: Chroot) -> None:
    """Of all topics, or of some."""
    assert operator.partitions.reassigned_partitions() == []
    for partition in (TWO, ONE, TopicPartition("u", 10), TopicPartition("u", 9)):
        place.put(paths.reassignment_path(partition), encode_spec(GOAL))
    assert operator.partitions.reassigned_partitions() == [
        ONE,
        TWO,
        TopicPartition("u", 9),
        TopicPartition("u", 10),
    ]
    assert operator.partitions.reassigned_partitions(["u", "none"]) == [
        TopicPartition("u", 9),
        TopicPartition("u", 10),
    ]


def test_a_submitted_request_is_what_any_client_may_write(
    operator: OperatorClient, place: Chroot
) -> None:
    """The bare form of KIP-236, and a malformed one."""
    place.put(
        paths.submission_path("request_0000000001"), json.dumps({"t": {"0": [2, 3]}}).encode()
    )
    place.put(paths.submission_path("request_0000000002"), b"nonsense")
    found = operator.requests.submissions(operator.requests.open())
    good, bad = found["request_0000000001"], found["request_0000000002"]
    assert good is not None
    assert good.entries == {ONE: THERE}
    assert bad is not None
    assert bad.unreadable is not None
