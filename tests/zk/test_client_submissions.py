"""What clients ask to reassign is written as an operator's command writes it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from controller.core.calls.client_requests import SubmittedReassignments
from controller.core.calls.records import ReassignmentsSubmitted
from controller.core.effects import SubmitReassignments
from controller.core.model import Instant, Replicas, RequestId, TopicPartition, ZkVersion, Zxid
from controller.core.records import Event
from controller.core.requests.submissions import Cancellation
from controller.errors import ReassignmentConflictError, SessionSuspendedError
from controller.zk import client_submissions
from controller.zk.client_submissions import ClientSubmissions
from controller.zk.request_writes import RequestWrites
from controller.znodes.cancellations import combine
from controller.znodes.json_documents import TEXT_MAX
from controller.znodes.plans import decode_submission
from tests.core.builders import replicas, tp
from tests.zk.fakes import FakeClock


class Operator(RequestWrites):
    """An operator's connection that keeps what is written."""

    def __init__(self, running: Cancellation | None = None) -> None:
        self.submitted: list[bytes] = []
        self.cancelled: list[Cancellation] = []
        self.running = running
        self.waits_s: list[float] = []

    @property
    def writes(self) -> Operator:
        """Return the writes."""
        return self

    def submit(self, data: bytes) -> str:
        """Keep a request."""
        self.submitted.append(data)
        return f"request_{len(self.submitted):010d}"

    def cancel(self, wanted: Cancellation, *, wait_s: float = 0.0) -> Cancellation:
        """Keep a cancellation."""
        self.waits_s.append(wait_s)
        self.cancelled.append(combine(self.running, wanted, is_selected=True))
        return Cancellation(ZkVersion(0), Zxid(77), 1)


def answer_to(
    operator: Operator | Exception,
    targets: dict[TopicPartition, Replicas],
    cancelled: frozenset[TopicPartition] = frozenset(),
    client: str = "a tool",
    until: float = 1020.0,
) -> SubmittedReassignments:
    """Submit, and return what is reported."""

    @contextmanager
    def connect() -> Iterator[Any]:
        if isinstance(operator, Exception):
            raise operator
        yield operator

    reported: queue.SimpleQueue[Event] = queue.SimpleQueue()
    adapter = ClientSubmissions(reported, FakeClock(), connect)
    adapter.start()
    try:
        adapter.submit(SubmitReassignments(5, targets, cancelled, (), client, Instant(until)))
        event = reported.get(timeout=10)
    finally:
        adapter.stop()
    assert not adapter.is_alive
    assert isinstance(event, ReassignmentsSubmitted)
    assert event.ticket == 5
    return event.submitted


def test_a_request_names_its_author() -> None:
    """It is reported under the name that ZooKeeper gave it."""
    operator = Operator()
    found = answer_to(operator, {tp(): replicas(1, 2)})
    assert found == SubmittedReassignments(RequestId("request_0000000001"), None)
    read = decode_submission("request_1", operator.submitted[0], ZkVersion(0), Zxid(1), 1)
    assert dict(read.entries) == {tp(): replicas(1, 2)}
    assert read.options.requested_by == "a tool"
    assert read.options.reason == client_submissions.REASON


def test_a_plan_that_is_too_large_for_one_znode_is_one_request() -> None:
    """Its parts have one id, by which the core follows it."""
    operator = Operator()
    found = answer_to(operator, {tp(n): replicas(1, 2, 3) for n in range(60_000)})
    parts = [decode_submission("x", d, ZkVersion(0), Zxid(1), 1) for d in operator.submitted]
    assert len(parts) > 1
    assert {p.request for p in parts} == {found.request}
    assert sum(len(p.entries) for p in parts) == 60_000


def test_a_cancellation_joins_the_running_one() -> None:
    """It waits for the selection of that one no longer than its client waits for it."""
    running = Cancellation(ZkVersion(0), Zxid(77), 1, partitions=frozenset({tp(1)}))
    operator = Operator(running)
    found = answer_to(operator, {}, frozenset({tp(0)}))
    assert found == SubmittedReassignments(None, running.request)
    assert operator.cancelled[0].partitions == {tp(0)}
    assert operator.waits_s == [20.0]
    assert not operator.submitted


def test_a_request_that_is_written_is_reported_where_the_cancellation_fails() -> None:
    """It is durable, and will be carried out."""
    operator = Operator(Cancellation(ZkVersion(0), Zxid(77), 1, unreadable="it is no JSON"))
    found = answer_to(operator, {tp(0): replicas(1, 2)}, frozenset({tp(1)}))
    assert found.request == RequestId("request_0000000001")
    assert found.cancellation is None
    assert "it is no JSON" in (found.problem or "")


def test_a_long_name_of_a_client_is_cut() -> None:
    """A request with a longer one would be unreadable."""
    operator = Operator(Cancellation(ZkVersion(0), Zxid(77), 1, requested_by="y" * TEXT_MAX))
    long = "x" * (TEXT_MAX + 1)
    answer_to(operator, {tp(0): replicas(1, 2)}, frozenset({tp(1)}), client=long)
    read = decode_submission("request_1", operator.submitted[0], ZkVersion(0), Zxid(1), 1)
    assert read.options.requested_by == "x" * TEXT_MAX
    assert len(operator.cancelled[0].requested_by) == TEXT_MAX


@pytest.mark.parametrize(
    "error", [SessionSuspendedError("no answer"), ReassignmentConflictError("contended")]
)
def test_a_failure_is_reported_and_the_next_one_is_tried(error: Exception) -> None:
    """The client hears the reason."""
    found = answer_to(error, {tp(): replicas(1, 2)})
    assert found == SubmittedReassignments(None, None, str(error))


def test_what_a_client_no_longer_waits_for_is_not_written() -> None:
    """It may have asked another controller since, and for something else."""
    operator = Operator()
    found = answer_to(operator, {tp(): replicas(1, 2)}, frozenset({tp(1)}), until=1000.0)
    assert (found.request, found.cancellation) == (None, None)
    assert "its time is over" in (found.problem or "")
    assert not operator.submitted
    assert not operator.cancelled


def test_what_is_queued_when_the_role_ends_is_not_written() -> None:
    """The client was told to ask another controller."""
    entered, go_on = threading.Event(), threading.Event()
    operator = Operator()

    @contextmanager
    def connect() -> Iterator[Any]:
        entered.set()
        assert go_on.wait(10)
        yield operator

    reported: queue.SimpleQueue[Event] = queue.SimpleQueue()
    adapter = ClientSubmissions(reported, FakeClock(), connect)
    adapter.start()
    for ticket in (1, 2, 3):
        targets = {tp(ticket): replicas(1, 2)}
        adapter.submit(SubmitReassignments(ticket, targets, frozenset(), (), "", Instant(1020.0)))
    assert entered.wait(10)
    adapter.forget()
    go_on.set()
    adapter.stop()
    assert len(operator.submitted) == 1
