"""Each event is sent once, and many of a kind together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.core.model import Instant
from controller.setting_values import NotificationKind
from controller.telemetry.log_events import LogEvent, info, warning
from controller.web.notifications import EVERY_S, Coalescer, Notification
from tests.telemetry.builders import START

BEGUN = info(
    "request_begun", request="r", entries=7, requested_by="kim", asked_for="drain", throttle=None
)
ENDED = info(
    "request_ended",
    request="r",
    state="done",
    seconds=90.0,
    entries=7,
    done=5,
    refused=2,
    cancelled=0,
    superseded=0,
    skipped=0,
    bytes_moved=3_000_000,
)
CANCELLED = info(
    "cancellation_seen",
    request="cancel-1",
    everything=True,
    scope="in_flight",
    reason="wrong topic",
    requested_by="kim",
    unreadable=None,
)


def refused(number: int, request: str = "r") -> LogEvent:
    """Return the refusal of an entry."""
    entry = f"t-{number} -> [9]"
    return warning(
        "refused", request=request, entry=entry, reason="unknown_broker", detail="no 9", entries=1
    )


def stalled(number: int, by: str = "broker_dead") -> LogEvent:
    """Return a stalled partition."""
    return warning("stalled", topic="t", partition=number, by=by)


def sent(coalescer: Coalescer, *events: LogEvent, after_s: float = 0.0) -> list[Notification]:
    """Add events and return the notifications that are due."""
    for event in events:
        coalescer.take(event, START)
    return list(coalescer.due(Instant(1000.0 + after_s), START))


@pytest.mark.parametrize(
    ("note", "kind", "text"),
    [
        (BEGUN, NotificationKind.STARTED, "r has started, 7 partitions by kim: drain"),
        (
            ENDED,
            NotificationKind.ENDED,
            "r has ended (done) after 90 s, 5 of 7 done, 2 refused, 3 MB copied",
        ),
        (
            CANCELLED,
            NotificationKind.CANCELLED,
            "everything in progress is being cancelled by kim: wrong topic",
        ),
        (
            stalled(3),
            NotificationKind.STALLED,
            "1 partition stalled (broker_dead): t-3",
        ),
        (
            refused(3),
            NotificationKind.REFUSED,
            "1 entry of r refused: t-3 -> [9] (unknown_broker: no 9)",
        ),
    ],
)
def test_each_kind_is_one_sentence(note: LogEvent, kind: NotificationKind, text: str) -> None:
    """The fields are beside it, for programs."""
    (found,) = sent(Coalescer(), note)
    assert (found.kind, found.text) == (kind, text)
    document = found.document("zk:2181/kafka")
    assert json.loads(json.dumps(document)) == document
    assert document["event"] == kind.value
    assert document["cluster"] == "zk:2181/kafka"
    assert document["at"] == "2026-01-02T03:04:05.000Z"


def test_other_events_send_nothing() -> None:
    """Such as a phase change."""
    assert sent(Coalescer(), info("phase", topic="t"), info("claimed", epoch=3)) == []


def test_events_of_one_kind_are_coalesced() -> None:
    """With the first few by name; one notification in ten seconds for each request or reason."""
    coalescer = Coalescer()
    (first,) = sent(coalescer, *(refused(n) for n in range(30)))
    assert first.fields["entries"] == 30
    assert len(first.fields["sample"]) == 5
    assert first.text.endswith(", ...")
    assert sent(coalescer, refused(31), after_s=1) == []
    other, kind = sent(coalescer, refused(32, "other"), stalled(1), after_s=2)
    assert (other.fields["request"], kind.kind) == ("other", NotificationKind.STALLED)
    (later,) = sent(coalescer, refused(33), after_s=EVERY_S)
    assert later.fields["entries"] == 2
    assert sent(coalescer, after_s=100) == []


def test_counted_events_add_to_the_number() -> None:
    """Beyond the first few, log events have numbers."""
    more = info("stalled_more", partitions=12, by={"broker_dead": 10, "no_leader": 2})
    found = sent(Coalescer(), stalled(1), more)
    assert {a.fields["by"]: a.fields["partitions"] for a in found} == {
        "broker_dead": 11,
        "no_leader": 2,
    }
    (refusals,) = sent(Coalescer(), refused(1), warning("refused_more", request="r", entries=9))
    assert refusals.fields["entries"] == 10


def test_cancellation_is_sent_once() -> None:
    """Its znode is read again at every change."""
    coalescer = Coalescer()
    assert len(sent(coalescer, CANCELLED)) == 1
    assert sent(coalescer, CANCELLED, after_s=60) == []
    unreadable = info(
        "cancellation_seen", **{**CANCELLED.fields, "request": "c2", "unreadable": "x"}
    )
    (found,) = sent(coalescer, unreadable)
    assert found.text == "a cancellation is not readable: x"


def test_documentation_names_every_kind() -> None:
    """Its example has the fields of the document."""
    text = (Path(__file__).resolve().parents[2] / "docs/guide/notifications.md").read_text()
    for kind in NotificationKind:
        assert f"| `{kind.value}` |" in text
    example = json.loads(text.split("```json\n")[1].split("```")[0])
    (found,) = sent(Coalescer(), ENDED)
    assert list(found.document("zk")) == list(example)
