"""
Throttles on real brokers: they stand before the first copy, hold it back, and leave no trace.

What stood in Kafka's settings at each moment is read from ZooKeeper; that brokers apply it is seen
by copies that do not get in sync.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.operator_actions import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    await_leases_gone,
    ended,
    lines,
    rates,
    said,
)
from integration.rigs.plans import (
    Daemons,
    Targets,
    await_end,
    configure,
    configured,
    fill,
    is_reassigning,
    outcome,
    unconfigure,
)
from integration.rigs.requests import CANCEL, submit_request
from integration.rigs.traffic import Traffic
from integration.rigs.transaction_log import Write, writes
from integration.rigs.waiting import eventually

TRICKLE: Final = 1
FAST: Final = 500_000_000

Moved = tuple[str, Targets]


pytestmark = pytest.mark.usefixtures("nothing_turned")


@pytest.fixture
def moved(cluster: Cluster, make_topic: MakeTopic) -> Moved:
    """Give a topic with data in two partitions, and where they are to go."""
    topic = make_topic({0: (1, 2), 1: (2, 1)}, {"retention.ms": "86400000"})
    fill(cluster, [(topic, 0), (topic, 1)])
    return topic, {(topic, 0): (1, 3), (topic, 1): (4, 1)}


def turn(cluster: Cluster, request: str, throttle: int) -> None:
    """Change a request's throttle live."""
    said(cluster, "throttle", str(throttle), "--request", request)


def await_copies(cluster: Cluster, topic: str) -> None:
    """Wait until the first step of a partition stands in the topic znode."""
    eventually(lambda: is_reassigning(cluster, topic), within_s=20, what="a step began")


def first(history: list[Write], path: str, *keys: str) -> int:
    """Return the zxid of the first write of a znode whose content has something at these keys."""

    def has(write: Write) -> bool:
        content: Any = write.content
        for key in keys:
            content = content.get(key, {}) if isinstance(content, Mapping) else {}
        return bool(content)

    return next(w.zxid for w in history if w.path == path and has(w))


def test_throttle_stands_before_the_first_copy_holds_it_and_is_restored_at_the_end(
    cluster: Cluster, moved: Moved, daemons: Daemons
) -> None:
    """And its rate is changed live, on the brokers alone."""
    topic, targets = moved
    before = configured(cluster, f"topics/{topic}")
    daemons.start("--tenure-linger", "1")
    request = submit_request(cluster, targets, throttle=TRICKLE)
    await_copies(cluster, topic)
    assert configured(cluster, f"topics/{topic}") == {
        **before,
        LEADER_REPLICAS: "0:1,0:2,1:1,1:2",
        FOLLOWER_REPLICAS: "0:3,1:4",
    }
    both, none = (str(TRICKLE), str(TRICKLE)), (None, None)
    assert rates(cluster) == {1: both, 2: both, 3: both, 4: both, 5: none}
    time.sleep(5)
    assert 3 not in cluster.isr(topic, 0)
    assert 4 not in cluster.isr(topic, 1)
    turn(cluster, request, FAST)
    await_end(cluster, targets, within_s=90)
    await_leases_gone(cluster)
    assert configured(cluster, f"topics/{topic}") == before
    assert set(rates(cluster).values()) == {none}
    eventually(lambda: outcome(cluster, request) is not None, within_s=10)
    history = writes(cluster)
    step = first(history, f"/brokers/topics/{topic}", "adding_replicas")
    assert first(history, f"/config/topics/{topic}", "config", FOLLOWER_REPLICAS) < step
    for broker in (1, 2, 3, 4):
        of_broker = [w for w in history if w.path == f"/config/brokers/{broker}"]
        assert any(
            w.zxid < step and FOLLOWER_RATE in w.content.get("config", {}) for w in of_broker
        )
    lists = [w for w in history if w.path == f"/config/topics/{topic}" and w.zxid > step]
    assert len(lists) == 1, "the topic's lists were rewritten while the request was in flight"


def test_settings_of_the_operator_stay_as_they_are(
    cluster: Cluster, moved: Moved, daemons: Daemons
) -> None:
    """His rate, his list and his ``*``; what is missing beside them is ours, until the end."""
    topic, targets = moved
    configure(cluster, f"topics/{topic}", {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "7:9,0:3"})
    configure(cluster, "brokers/3", {FOLLOWER_RATE: str(FAST)})
    before = configured(cluster, f"topics/{topic}")
    daemons.start("--tenure-linger", "1")
    request = submit_request(cluster, targets, throttle=TRICKLE)
    await_copies(cluster, topic)
    assert configured(cluster, f"topics/{topic}") == {**before, FOLLOWER_REPLICAS: "7:9,0:3,1:4"}
    assert rates(cluster)[3] == (str(TRICKLE), str(FAST))
    turn(cluster, request, FAST)
    await_end(cluster, targets, within_s=90)
    await_leases_gone(cluster)
    assert configured(cluster, f"topics/{topic}") == before
    assert rates(cluster)[3] == (None, str(FAST))


def test_throttle_is_restored_when_the_request_is_cancelled(
    cluster: Cluster, moved: Moved, daemons: Daemons
) -> None:
    """Nothing of what was asked for is left, nor of what it needed."""
    topic, targets = moved
    before = configured(cluster, f"topics/{topic}")
    daemons.start("--tenure-linger", "1")
    submit_request(cluster, targets, throttle=TRICKLE)
    await_copies(cluster, topic)
    cluster.zk.create(CANCEL, b"")
    await_end(cluster, {(topic, 0): (1, 2), (topic, 1): (2, 1)}, within_s=40)
    await_leases_gone(cluster)
    assert configured(cluster, f"topics/{topic}") == before
    assert set(rates(cluster).values()) == {(None, None)}


def test_throttle_outlives_a_killed_daemon_and_is_restored_by_the_next(
    cluster: Cluster, moved: Moved, daemons: Daemons
) -> None:
    """What stood there before is remembered in ZooKeeper, not in the process."""
    topic, targets = moved
    configure(cluster, "brokers/3", {"log.cleaner.threads": "1"})
    before = configured(cluster, f"topics/{topic}")
    killed = daemons.start("--tenure-linger", "1")
    request = submit_request(cluster, targets, throttle=TRICKLE)
    await_copies(cluster, topic)
    killed.kill()
    assert FOLLOWER_REPLICAS in configured(cluster, f"topics/{topic}")
    daemons.start("--tenure-linger", "1")
    turn(cluster, request, FAST)
    await_end(cluster, targets, within_s=90)
    await_leases_gone(cluster)
    assert configured(cluster, f"topics/{topic}") == before
    assert configured(cluster, "brokers/3") == {"log.cleaner.threads": "1"}
    unconfigure(cluster, "brokers/3", "log.cleaner.threads")


def test_a_throttle_that_was_cleared_from_outside_is_set_again(
    cluster: Cluster, moved: Moved, daemons: Daemons
) -> None:
    """The stock tool's ``--verify`` clears every broker's when it sees nothing moving."""
    topic, targets = moved
    daemons.start("--tenure-linger", "1", "--config-refresh", "2")
    request = submit_request(cluster, targets, throttle=TRICKLE)
    await_copies(cluster, topic)
    unconfigure(cluster, "brokers/3", LEADER_RATE, FOLLOWER_RATE)
    both = (str(TRICKLE), str(TRICKLE))
    eventually(lambda: rates(cluster)[3] == both, within_s=15, what="the rate is set again")
    turn(cluster, request, FAST)
    await_end(cluster, targets, within_s=90)
    await_leases_gone(cluster)
    assert set(rates(cluster).values()) == {(None, None)}


def was_turned(cluster: Cluster, broker: int, rate: int) -> bool:
    """Return whether a rate ever stood: at that speed the copies, and with them it, end at once."""
    return any(
        write.path == f"/config/brokers/{broker}" and str(rate).encode() in (write.data or b"")
        for write in writes(cluster)
    )


@pytest.mark.smoke
def test_throttle_of_all_is_turned_live_for_what_has_none_of_its_own(
    cluster: Cluster, moved: Moved, daemons: Daemons
) -> None:
    """`reassigner throttle` before it begins, while it copies, and off again."""
    topic, targets = moved
    before = configured(cluster, f"topics/{topic}")
    said(cluster, "throttle", "1")
    daemons.start("--tenure-linger", "1")
    request = submit_request(cluster, targets)
    await_copies(cluster, topic)
    assert rates(cluster)[3] == (str(TRICKLE), str(TRICKLE))
    said(cluster, "throttle", "500MB")
    eventually(lambda: was_turned(cluster, 3, FAST), within_s=30, what="the rate is turned")
    said(cluster, "throttle", "none")
    await_leases_gone(cluster)
    assert configured(cluster, f"topics/{topic}") == before
    await_end(cluster, targets, within_s=90)
    ended(cluster, request)
    assert set(rates(cluster).values()) == {(None, None)}


def test_submitted_throttle_of_a_request_in_parts_is_lifted_by_the_next_daemon(
    cluster: Cluster, moved: Moved, daemons: Daemons
) -> None:
    """Of all parts, with no daemon there; the throttle of all is named as not reaching it."""
    topic, targets = moved
    before = configured(cluster, f"topics/{topic}")
    whole = "in-parts-1"
    killed = daemons.start("--tenure-linger", "1")
    for partition, replicas in targets.items():
        part = {partition: replicas}
        submit_request(cluster, part, throttle=TRICKLE, part_of=whole, parts=len(targets))
    both = (str(TRICKLE), str(TRICKLE))
    eventually(
        lambda: (rates(cluster)[3], rates(cluster)[4]) == (both, both),
        within_s=20,
        what="both parts are throttled",
    )
    await_copies(cluster, topic)
    assert f"reassigner throttle 500MB --request {whole}" in said(cluster, "throttle", "500MB")
    time.sleep(3)
    assert rates(cluster)[3] == both
    killed.kill()
    said(cluster, "throttle", "none", "--request", whole)
    daemons.start("--tenure-linger", "1")
    await_leases_gone(cluster)
    assert configured(cluster, f"topics/{topic}") == before
    assert set(rates(cluster).values()) == {(None, None)}
    await_end(cluster, targets, within_s=90)
    ended(cluster, whole)
    history = writes(cluster)
    lifted = [w.zxid for w in history if w.path in ("/config/brokers/3", "/config/brokers/4")]
    done = [w.zxid for w in history if w.path == f"/brokers/topics/{topic}"]
    assert max(lifted) < max(done), "the throttle went with the end, not when it was lifted"


def test_throttle_below_the_produce_rate_is_warned_about(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """The broker, its rate and what producers send are named; the copies would never end."""
    topic = make_topic({0: (1, 2)})
    targets = {(topic, 0): (1, 3)}
    daemon = daemons.start("--tenure-linger", "1", "--size-refresh", "6")
    flood = Traffic(cluster.bootstrap_servers, {topic: 1}, records_per_s=100, payload_bytes=5000)
    with flood:
        # More than a broker fetches before it has heard of its limit, or the copy is soon whole.
        eventually(lambda: len(flood.acknowledged) > 1000, within_s=60)
        request = submit_request(cluster, targets, throttle=10_000)
        warned = eventually(
            lambda: lines(daemon, "throttle_below_produce_rate"),
            within_s=60,
            what="the throttle is warned about",
        )
        assert any(
            line["detail"].startswith("broker 3 receives copies at 10000 bytes/s")
            for line in warned
        )
        assert daemon.status()["strain"]["throttles"]["below_produce_rate"]
        turn(cluster, request, FAST)
        await_end(cluster, targets, within_s=90)
