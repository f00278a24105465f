"""Refusals of entries, in any number: each is durable, and none is too large to write."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from controller.core.cycle import observe, take_due
from controller.core.decide import decide
from controller.core.effects import ReadAccepted, ReadSubmissions
from controller.core.model import Instant, Refusal, RefusalReason, RequestId, ZkVersion, Zxid
from controller.core.records import Change, Event, TimerFired
from controller.core.requests.completion import WITHDRAWN_PATIENCE_S, WITHDRAWN_TIMER
from controller.core.requests.outcomes import EndedHistory, OpenHistory, Part
from controller.core.requests.records import (
    AcceptedRead,
    CancellationRead,
    HistoryRead,
    KillSwitchRead,
    LegacyPlanRead,
    QueueRead,
    RefusalRecord,
    RequestOutcomeForgottenRecord,
    RequestOutcomeRecord,
    SubmissionReliedRecord,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submissions import AcceptedEntry, Cancellation, RequestOptions
from controller.core.role.invalidation import invalidate
from controller.reactor.group_commit import Batcher
from controller.zk.multis import too_large
from controller.znodes import paths
from controller.znodes.plans import decode_legacy_plan, decode_submission
from tests.core.builders import Driver, replicas, tp
from tests.core.requests.test_submitted import outcomes, submission, submit

MANY = 6000
NAME = "request_0000000000"


def a_plan(*rows: object) -> bytes:
    """Return a plan's znode."""
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":")).encode()


def with_log_dirs(number: int) -> dict[str, object]:
    """Return an entry that chooses a log directory, which is not supported."""
    return {"topic": f"orders.eu-{number:05d}", "partition": 0, "replicas": [1], "log_dirs": ["/d"]}


def with_brokers(count: int) -> dict[str, object]:
    """Return an entry with very many brokers."""
    return {"topic": "t", "partition": 0, "replicas": list(range(10, 10 + count))}


def as_legacy(data: bytes) -> list[Event]:
    """Return the legacy plan as read."""
    return [LegacyPlanRead(decode_legacy_plan(data, ZkVersion(0), Zxid(60)))]


def as_queue(data: bytes) -> list[Event]:
    """Return the queue as read."""
    return [QueueRead(decode_legacy_plan(data, ZkVersion(0), Zxid(60)))]


def as_request(data: bytes) -> list[Event]:
    """Return a request as read."""
    read = decode_submission(NAME, data, ZkVersion(0), Zxid(60), 0)
    return [SubmissionsListed(frozenset({NAME})), SubmissionsRead({NAME: read})]


@pytest.mark.parametrize("route", [as_legacy, as_queue, as_request])
@pytest.mark.parametrize(
    "rows", [[with_log_dirs(n) for n in range(MANY)], [with_brokers(100_000)]], ids=["rows", "ids"]
)
def test_whatever_is_refused_fits_into_multis(route: object, rows: list[object]) -> None:
    """Else ZooKeeper would refuse it for ever, and the role be held as long."""
    driver = Driver({tp(): (1, 2)})
    data = a_plan(*rows)
    assert len(data) < 1_000_000
    for event in route(data):  # type: ignore[operator]
        observe(driver.view, event, driver.now)
    refused = 0
    while driver.view.due:
        decision = decide(driver.view, take_due(driver.view), driver.now)
        for batch in Batcher(driver.view).batches(decision.changes):
            assert too_large(batch.operations) is None
        for change in decision.changes:
            driver.commit(change)
            refused += sum(isinstance(r, RefusalRecord) for r in change.records)
    assert refused == len(rows)
    (summary,) = outcomes(driver).values()
    assert (summary.total, summary.done, len(summary.refused)) == (len(rows), 0, len(rows))


def test_malformed_entries_that_read_alike_are_each_refused_once_though_a_daemon_died() -> None:
    """Their number shows which of them are durable already."""
    driver = Driver({tp(): (1, 2)})
    data = a_plan("this", "this", "this")
    read = decode_submission(NAME, data, ZkVersion(0), Zxid(60), 0)
    entry, why = read.refused[0]
    durable = Refusal(RequestId(NAME), entry, RefusalReason.MALFORMED, why)
    driver.observe(HistoryRead({RequestId(NAME): OpenHistory({}, 0, (durable,))}, {}))
    submit(driver, read)
    summary = outcomes(driver)[RequestId(NAME)]
    assert (summary.total, summary.done, len(summary.refused)) == (3, 0, 3)


def test_parts_with_the_same_malformed_entry_each_refuse_it() -> None:
    """One request, two znodes: each says in which of them it stands."""
    driver = Driver({tp(): (1, 2)})
    for name in (NAME, "request_0000000001"):
        of = b"" if name == NAME else b'"part_of":"request_0000000000",'
        data = b'{"version":1,%s"parts":2,"partitions":["this"]}' % of
        submit(driver, decode_submission(name, data, ZkVersion(0), Zxid(60), 0))
    summary = outcomes(driver)[RequestId(NAME)]
    assert (summary.total, summary.done, len(summary.refused)) == (2, 0, 2)


def test_a_part_of_a_request_that_has_ended_is_one_too_many() -> None:
    """Also for a daemon that knows of that request only that it has ended."""
    driver = Driver({tp(): (1, 2)})
    ended = RequestId("request_0000000007")
    driver.observe(HistoryRead({}, {ended: EndedHistory(("summary",), Zxid(40))}))
    submit(driver, submission(NAME, {tp(): (1, 3)}, part_of=ended))
    (refusal,) = outcomes(driver)[RequestId(NAME)].refused
    assert refusal.reason is RefusalReason.TOO_MANY_PARTS
    assert driver.view.reassignments.by_partition == {}


def test_a_name_that_comes_again_waits_for_the_request_of_that_name() -> None:
    """One outcome is kept by a name: the former's is written, then it makes room."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    submit(driver, submission(NAME, {tp(0): (1, 3)}))
    again = submission(NAME, {tp(1): (1, 3)}, czxid=90)
    submit(driver, replace(again, created_ms=again.created_ms + 1))
    assert set(driver.view.reassignments.by_partition) == {tp(0)}
    driver.run(tp(0))
    assert set(driver.view.reassignments.by_partition) == {tp(1)}
    driver.run(tp(1))
    ended = [r for c in driver.changes for r in c.records]
    summaries = [r.summary for r in ended if isinstance(r, RequestOutcomeRecord)]
    assert [(s.total, s.done) for s in summaries] == [(1, 1), (1, 1)]
    assert [r.request for r in ended if isinstance(r, RequestOutcomeForgottenRecord)] == [NAME]


def test_whatever_is_decided_by_a_request_holds_for_that_version_of_it() -> None:
    """Its client may change it at any time without an event."""
    driver = Driver({tp(): (1, 2)})
    read = replace(submission(NAME, {tp(): (1, 3)}), version=ZkVersion(4))
    driver.fold(SubmissionsListed(frozenset({NAME})))
    driver.fold(SubmissionsRead({NAME: read}))
    while NAME in driver.view.requests_session.submissions:
        decision = decide(driver.view, take_due(driver.view), driver.now)
        for batch in Batcher(driver.view).batches(decision.changes):
            checked = [(o.path, getattr(o, "version", None)) for o in batch.operations]
            assert (paths.submission_path(NAME), 4) in checked
        for change in decision.changes:
            driver.commit(change)


def test_a_request_that_was_changed_is_read_again() -> None:
    """What was decided by the old version of it is refused, and that version forgotten."""
    driver = Driver({tp(): (1, 2)})
    driver.view.topics.configs.pop("t")
    submit(driver, submission(NAME, {tp(): (1, 3)}))
    driver.sent.clear()
    change = Change((SubmissionReliedRecord(NAME, ZkVersion(0)),))
    assert invalidate(driver.view, change) == []
    driver.settle()
    assert ReadSubmissions((NAME,)) in driver.sent


def pass_time(driver: Driver) -> None:
    """Let so much time pass that a znode that is there was listed."""
    driver.now = Instant(driver.now + WITHDRAWN_PATIENCE_S)
    driver.observe(TimerFired(WITHDRAWN_TIMER))


def test_entries_of_a_request_that_was_withdrawn_are_not_done() -> None:
    """An operator deleted its znode before all of it was accepted."""
    driver = Driver({tp(0): (1, 2), tp(0, "u"): (1, 2), tp(1, "u"): (1, 2)})
    driver.view.topics.configs.pop("u")
    entries = {tp(0): (1, 3), tp(0, "u"): (3, 4), tp(1, "u"): (3, 4)}
    submit(driver, submission(NAME, entries))
    driver.run(tp(0))
    driver.observe(SubmissionsListed(frozenset()))
    assert outcomes(driver) == {}
    pass_time(driver)
    summary = outcomes(driver)[RequestId(NAME)]
    assert (summary.total, summary.done) == (3, 1)
    (refusal,) = summary.refused
    assert (refusal.reason, refusal.entries) == (RefusalReason.DROPPED_BY_OPERATOR, 2)


def test_entries_of_a_request_that_was_deleted_while_no_daemon_led_are_not_done() -> None:
    """The history counts the accepted entries; the deletion of the znode has to be certain."""
    driver = Driver({tp(0): (1, 3)})
    part = Part(NAME, 3, 5, RequestOptions())
    driver.observe(HistoryRead({RequestId(NAME): OpenHistory({NAME: part}, 1)}, {}))
    assert outcomes(driver) == {}
    pass_time(driver)
    summary = outcomes(driver)[RequestId(NAME)]
    assert (summary.total, summary.done) == (3, 1)


def test_what_a_daemon_before_had_accepted_and_done_is_not_repeated() -> None:
    """Another request may have moved it since: only what was not accepted yet is judged."""
    driver = Driver({tp(0): (1, 4), tp(1): (1, 2)})
    history = OpenHistory({NAME: Part(NAME, 2, 1_700_000_000_000, RequestOptions())}, 1)
    driver.observe(HistoryRead({RequestId(NAME): history}, {}))
    submit(driver, submission(NAME, {tp(0): (1, 3), tp(1): (1, 3)}))
    assert ReadAccepted(RequestId(NAME)) in driver.sent
    assert driver.view.reassignments.by_partition == {}
    before = AcceptedEntry(tp(0), replicas(1, 2), replicas(1, 3))
    driver.observe(AcceptedRead(RequestId(NAME), (before,)))
    assert set(driver.view.reassignments.by_partition) == {tp(1)}
    driver.run(tp(1))
    summary = outcomes(driver)[RequestId(NAME)]
    assert (summary.total, summary.done) == (2, 2)


def test_what_was_accepted_is_learnt_again_when_there_is_more_of_it_during_a_cancellation() -> None:
    """A second daemon led for a while; with the request unlearnt its rest would wait for ever."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    part = Part(NAME, 2, 1_700_000_000_000, RequestOptions())
    driver.observe(HistoryRead({RequestId(NAME): OpenHistory({NAME: part}, 1)}, {}))
    driver.observe(SubmissionsListed(frozenset({NAME, "request_0000000009"})))
    driver.observe(CancellationRead(Cancellation(ZkVersion(0), Zxid(1), 0)))
    driver.observe(SubmissionsRead({NAME: submission(NAME, {tp(0): (1, 3), tp(1): (1, 3)})}))
    before = AcceptedEntry(tp(0), replicas(1, 2), replicas(1, 3))
    driver.observe(AcceptedRead(RequestId(NAME), (before,)))
    driver.sent.clear()
    driver.observe(HistoryRead({RequestId(NAME): OpenHistory({NAME: part}, 2)}, {}))
    assert ReadAccepted(RequestId(NAME)) in driver.sent


def test_what_a_daemon_before_had_accepted_is_not_refused_while_disabled() -> None:
    """Only the rest of it is."""
    driver = Driver({tp(0): (1, 3), tp(1): (1, 2)})
    driver.observe(KillSwitchRead(is_on=True))
    history = OpenHistory({NAME: Part(NAME, 2, 1_700_000_000_000, RequestOptions())}, 1)
    driver.observe(HistoryRead({RequestId(NAME): history}, {}))
    submit(driver, submission(NAME, {tp(0): (1, 3), tp(1): (1, 3)}))
    assert outcomes(driver) == {}
    before = AcceptedEntry(tp(0), replicas(1, 2), replicas(1, 3))
    driver.observe(AcceptedRead(RequestId(NAME), (before,)))
    summary = outcomes(driver)[RequestId(NAME)]
    assert (summary.total, summary.done, summary.refused[0].entries) == (2, 1, 1)
