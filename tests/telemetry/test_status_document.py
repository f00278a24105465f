"""Tests of ``controller.telemetry.status_document``."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import fields, replace
from typing import Any

import pytest

from controller.cli.status_text import request_line, status_lines, volume_of
from controller.core.core_settings import EngineName, Options
from controller.core.cycle import apply, observe
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    LeaderEpoch,
    OutcomeKind,
    Refusal,
    RefusalReason,
    RequestId,
    Route,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import (
    Controls,
    Drain,
    Drains,
    Evacuation,
    Limits,
    Pause,
    Pauses,
    QueueOrder,
    Quiesce,
)
from controller.core.pacing.drained_replicas import judge_all
from controller.core.pacing.model import GovernedRate, Signal, SignalKind
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.phases import Starting, Stopping, Syncing
from controller.core.requests.model import Request
from controller.core.requests.outcomes import EndedHistory, Part
from controller.core.requests.records import PartRecord
from controller.core.requests.submissions import Submission, Window
from controller.core.view import ClusterView
from controller.doctor.findings import CLIENTS_WAIT
from controller.telemetry.advice import governor_lines, state_words
from controller.telemetry.cluster_counts import EXAMPLES_MAX, assigned_replicas, work_counts
from controller.telemetry.copies import Copies
from controller.telemetry.json_values import Clocks
from controller.telemetry.partition_documents import PartitionDocuments, step_numbers, steps_between
from controller.telemetry.status_document import controls_of, limits_of, status_of
from tests.core.builders import replicas, tp
from tests.telemetry.builders import (
    REQUEST,
    START,
    ViewBuilder,
    a_view,
    measured,
    partition_state,
    run_to_end,
)

NOW = Clocks(Instant(1000.0), START)


def status(view: ClusterView) -> dict[str, Any]:
    """Return the status document of a view, as a client reads it."""
    tracker = measured(view, NOW)
    document = run_to_end(
        status_of(
            view,
            NOW,
            run_to_end(work_counts(view, NOW.now, 300.0)),
            engine="native",
            progress=tracker,
            documents=PartitionDocuments(view, NOW, Copies(), tracker, 300.0),
        )
    )
    read = json.loads(json.dumps(document))
    assert isinstance(read, dict)
    return read


def an_idle_broker(broker: int) -> dict[str, int | None]:
    """Return the document of a broker without copies, as far as a standby knows it."""
    zeros = dict.fromkeys(
        (
            *("incoming", "incoming_blocked", "outgoing", "outgoing_blocked"),
            *("in_bytes_remaining", "out_bytes_remaining"),
        ),
        0,
    )
    unknown = dict.fromkeys(("in_bytes_per_s", "out_bytes_per_s", "throttle_bytes_per_s"))
    what_it_has = dict.fromkeys(("rack", "replicas", "leaders"))
    return {"broker": broker, **zeros, **unknown, **what_it_has}


def test_an_idle_standby_says_so() -> None:
    """Without work there are empty lists, not missing ones."""
    view = a_view(1, 2, epoch=None).view
    view.role.leading = False
    assert status(view) == {
        "role": "standby",
        "dead_brokers": [],
        "disks": {
            "min_free": None,
            "min_free_bytes": 0,
            "min_free_share": 0.0,
            "unguarded": {},
            "log_dirs": [],
        },
        "engine": "native",
        "engine_because": "configured in the settings",
        "refused_because": [],
        "tenure": {"held": False, "epoch": None, "since": None},
        "clients_wait": CLIENTS_WAIT,
        "at": "2026-01-02T03:04:05.000Z",
        "brokers": [1, 2],
        "broker_loads": [an_idle_broker(1), an_idle_broker(2)],
        "routes": [],
        "total": {"bytes_per_s": None, "window_s": 30.0, "eta_s": None, "no_estimate": None},
        "requests": [],
        "undone": {},
        "partitions": {
            "in_flight": 0,
            "copying": 0,
            "between_steps": 0,
            "waiting": 0,
            "undecided": 0,
        },
        "controls": {
            "paused": {"everything": None, "requests": {}, "brokers": {}, "quiesce": None},
            "disabled": False,
            "throttle": None,
            "digest": Controls().digest,
        },
        "limits": {
            "max_partitions_in_flight": 100,
            "max_incoming_per_broker": 10,
            "max_outgoing_per_broker": 10,
            "max_bytes_in_flight": None,
            "throttle": None,
            "configured_throttle": None,
            "throttle_min": 5_000_000,
            "throttle_max": 1_000_000_000,
            "latency_objective_s": 0.5,
            "max_leader_moves_per_broker_per_second": 50,
            "step_size": 1,
            "order": "submitted",
            "under_min_isr": "wait",
            "window": None,
        },
        "governor": None,
        "blocked": {},
        "blocked_in_flight": {},
        "stalled": {},
        "drains": [],
        "evacuations": [],
        "require_approval": False,
        "topic_deletions": {},
        "orphans": [],
        "orphans_total": 0,
        "waiting": [],
        "in_flight": [],
    }


@pytest.mark.parametrize("serves_clients", [False, True])
def test_what_clients_wait_for_is_said_of_the_native_engine(
    engine: EngineName, *, serves_clients: bool
) -> None:
    """Without the public endpoint; the delegated engine keeps nobody waiting."""
    view = a_view(1).view
    view.role.engine = engine
    view.options = replace(view.options, serves_clients=serves_clients)
    waits = engine is EngineName.NATIVE and not serves_clients
    assert (status(view)["clients_wait"] is not None) is waits


def test_tenure_has_its_epoch_and_start() -> None:
    """Times of the loop's clock become times of day."""
    document = status(a_view(1).view)
    assert document["role"] == "leader"
    assert document["tenure"] == {"held": True, "epoch": 9, "since": "2026-01-02T03:02:25.000Z"}


def test_a_partition_that_copies_is_not_blocked(engine: EngineName) -> None:
    """It may be stalled."""
    built = a_view(1, 2, 3, 4).with_partition(
        tp(), (2, 3, 4, 1), adding=(4,), removing=(1,), state=partition_state(2, (2, 3))
    )
    view = built.with_reassignment(tp(), (2, 3, 4), Syncing(), step=1, since=100.0).view
    view.role.engine = engine
    copies = Blocked(BlockedBy.REPLICA_NOT_IN_ISR, "replica 4 is not in ISR", is_copying=True)
    view.reassignments.by_partition[tp()].wait(copies, Instant(995.0))
    document = status(view)
    assert document["partitions"]["copying"] == 1
    assert document["blocked"] == {}
    assert document["stalled"] == {"replica_not_in_isr": 1}
    (partition,) = document["in_flight"]
    assert (partition["state"], partition["blocked_on"]) == ("copying", None)
    assert partition["stalled"] is True


def test_partition_in_flight_has_all_fields(engine: EngineName) -> None:
    """An operator sees where it is, where it goes and what it waits for."""
    built = a_view(1, 2, 3, 4).with_partition(
        tp(), (2, 3, 4, 1), adding=(4,), removing=(1,), state=partition_state(2, (2, 3))
    )
    view = built.with_reassignment(tp(), (2, 3, 4), Syncing(), step=1).view
    view.role.engine = engine
    view.reassignments.by_partition[tp()].blocked = Blocked(
        BlockedBy.REPLICA_NOT_IN_ISR, "replica 3"
    )
    view.reassignments.by_partition[tp()].blocked_since = Instant(995.0)
    document = status(view)
    counts = {"in_flight": 1, "copying": 1, "between_steps": 0, "waiting": 0, "undecided": 0}
    assert document["partitions"] == counts
    assert document["blocked"] == {"replica_not_in_isr": 1}
    assert document["in_flight"] == [
        {
            "topic": "t",
            "partition": 0,
            "request": REQUEST,
            "phase": "A2-syncing",
            "begun": True,
            "state": "blocked",
            "copying_to": [4],
            "step": 2,
            "steps": 2,
            "replicas": [2, 3, 4, 1],
            "adding_replicas": [4],
            "removing_replicas": [1],
            "target_replicas": [2, 3, 4],
            "original_replicas": [1, 2, 3],
            "isr": [2, 3],
            "leader": 2,
            "copies": [],
            "bytes_per_s": None,
            "eta_s": None,
            "no_estimate": None,
            "share": 0.5,
            "blocked_on": {
                "by": "replica_not_in_isr",
                "detail": "replica 3",
                "since": "2026-01-02T03:04:00.000Z",
            },
            "since": "2026-01-02T03:03:55.000Z",
            "phase_since": "2026-01-02T03:03:55.000Z",
            "stalled": False,
        }
    ]


def test_partition_without_a_read_state_has_null_fields() -> None:
    """At the begin of a tenure much is unknown; nothing of it is invented."""
    view = a_view(1).with_reassignment(tp(), (4, 5), Syncing(), original=None, step=1).view
    document = status(view)["in_flight"][0]
    assert (document["replicas"], document["isr"], document["leader"]) == ([], [], None)
    assert document["original_replicas"] is None


def test_a_partition_without_progress_is_stalled() -> None:
    """After the configured time, and only on the leader."""
    built = a_view(1).with_reassignment(tp(0), (4,), Syncing(), since=700.0, step=1)
    view = built.with_reassignment(tp(1), (4,), since=0.0).view
    assert [p["stalled"] for p in status(view)["in_flight"]] == [True]


def test_each_reason_has_a_few_examples() -> None:
    """Ten thousand wait for a slot; the first few of them and of every other reason are named."""
    built = a_view(1, options=Options(max_partitions_in_flight=0))
    for number in range(20):
        built.with_reassignment(tp(number), (4,))
    built.view.reassignments.by_partition[tp(19)].blocked = Blocked(
        BlockedBy.BROKER_DEAD, "broker 4"
    )
    document = status(built.view)
    assert document["blocked"] == {"broker_dead": 1, "limit": 19}
    assert [(w["partition"], w["blocked_on"]["by"]) for w in document["waiting"]] == [
        (19, "broker_dead"),
        *((n, "limit") for n in range(EXAMPLES_MAX)),
    ]


def test_a_partition_between_two_steps_is_in_flight() -> None:
    """It is held up, also where everything is paused; one that has not begun waits."""
    built = a_view(1, 2, 3).with_partition(tp(0), (1, 2, 3)).with_partition(tp(1), (1, 2))
    built.with_reassignment(tp(0), (2, 3), original=(1, 2), step=1)
    view = built.with_reassignment(tp(1), (2, 3), original=(1, 2)).view
    assert status(view)["in_flight"][0]["state"] == "moving"
    observe(view, ControlsRead(Controls(pauses=Pauses(Pause("lunch", "ann")))), Instant(0.0))
    document = status(view)
    counts = document["partitions"]
    assert (counts["in_flight"], counts["between_steps"], counts["waiting"]) == (1, 1, 1)
    assert document["requests"][0]["partitions"]["between_steps"] == 1
    assert (document["blocked"], document["blocked_in_flight"]) == ({"paused": 2}, {"paused": 1})
    (partition,) = document["in_flight"]
    assert (partition["phase"], partition["begun"]) == ("pending", True)
    lines = list(status_lines(document))
    for line in (
        "1 partition in flight (1 between two steps), 1 waiting",
        "in flight, held up: paused 1",
        "waiting, by reason: paused 1",
        "t-1: waiting: everything is paused by ann: lunch (paused, since 2026-01-02 03:03:55Z)",
    ):
        assert any(found.startswith(line) for found in lines), line
    (line,) = (found for found in lines if found.startswith("t-0: "))
    assert line.startswith("t-0: between two steps, step 1 of 2, ")
    assert "held up: everything is paused by ann: lunch (paused, since " in line


def test_a_request_counts_its_partitions() -> None:
    """Total, done, in flight, waiting and refused come together."""
    built = a_view(1).with_reassignment(tp(0), (4,), Syncing(), step=1)
    view = built.with_reassignment(tp(1), (4,)).view
    tally = view.requests.by_id[REQUEST]
    tally.total, tally.open = 5, 2
    tally.refused.append(
        Refusal(REQUEST, "t-9 -> [4]", RefusalReason.UNKNOWN_PARTITION, "it does not exist")
    )
    (request,) = status(view)["requests"]
    assert request["state"] == "in_flight"
    assert request["reason"] == "it does not exist"
    assert request["partitions"] == {
        "total": 5,
        "done": 2,
        "in_flight": 1,
        "between_steps": 0,
        "waiting": 1,
        "rolling_back": 0,
        "refused": 1,
        "cancelled": 0,
        "superseded": 0,
        "skipped": 0,
        "undone": 0,
    }
    assert request["refusals"] == [
        {"entry": "t-9 -> [4]", "reason": "unknown_partition", "detail": "it does not exist"}
    ]


@pytest.mark.parametrize(
    ("done", "refused", "state"), [(1, 0, "done"), (1, 1, "refused"), (0, 1, "refused")]
)
def test_a_request_without_work_left_is_over(done: int, refused: int, state: str) -> None:
    """With the state of its worst entry, as the exit code of ``watch``."""
    view = a_view(1).with_reassignment(tp(), (4,)).view
    del view.reassignments.by_partition[tp()]
    tally = view.requests.by_id[REQUEST]
    tally.total, tally.open = done + refused, 0
    refusal = Refusal(REQUEST, "t-9", RefusalReason.MALFORMED, "no")
    tally.refused += [refusal] * refused
    assert status(view)["requests"][0]["state"] == state


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (OutcomeKind.CANCELLED, "cancelled"),
        (OutcomeKind.ROLLED_BACK, "cancelled"),
        (OutcomeKind.SUPERSEDED, "superseded"),
    ],
)
def test_the_bar_of_an_ended_request_is_the_share_that_is_done(
    kind: OutcomeKind, state: str
) -> None:
    """Half of it is not everything, whatever was copied before."""
    view = a_view(1).with_reassignment(tp(), (4,)).view
    del view.reassignments.by_partition[tp()]
    view.reassignments_leadership.specs_read = True
    tally = view.requests.by_id[REQUEST]
    tally.total, tally.open, tally.fates[kind] = 8, 0, 6
    (request,) = status(view)["requests"]
    assert (request["state"], request["share"]) == (state, 0.25)


def test_brokers_that_are_gone_are_dead_as_long_as_they_have_replicas() -> None:
    """Each broker has its rack, its replicas and, where all states are known, its leaders."""
    built = a_view(1, 2)
    built.with_partition(tp(0), (1, 2), state=partition_state(1, (1, 2)))
    view = built.with_partition(tp(1), (2, 4), state=partition_state(2, (2,))).view
    assigned = run_to_end(assigned_replicas(view))
    assert assigned.dead(view) == [4]
    assert (assigned.replicas, assigned.leaders) == ({1: 1, 2: 2, 4: 1}, {1: 1, 2: 1})
    tracker = measured(view, NOW)
    work = run_to_end(work_counts(view, NOW.now, 300.0))
    documents = PartitionDocuments(view, NOW, Copies(), tracker, 300.0)
    document = run_to_end(
        status_of(
            view,
            NOW,
            work,
            engine="native",
            progress=tracker,
            documents=documents,
            assigned=assigned,
        )
    )
    assert document["dead_brokers"] == [4]
    has = {load["broker"]: (load["replicas"], load["leaders"]) for load in document["broker_loads"]}
    assert has == {1: (1, 1), 2: (2, 1), 4: (1, 0)}
    del view.leadership.states[tp(1)]
    assert run_to_end(assigned_replicas(view)).leaders is None


@pytest.mark.parametrize(
    ("current", "target", "size", "steps"),
    [
        ((0, 1, 2), (3, 4, 5), 1, 4),
        ((0, 1, 2), (3, 4, 5), None, 1),
        ((1, 2), (1, 2), 1, 0),
        ((1, 2), (2, 1), 1, 1),
        ((1,), (1, 2, 3), 1, 2),
        ((1, 2, 3), (1,), 1, 1),
        ((), (1,), 1, 0),
    ],
)
def test_steps_are_counted_as_they_are_made(
    current: tuple[int, ...], target: tuple[int, ...], size: int | None, steps: int
) -> None:
    """The number of steps is that of KAFKA-6794's calculation."""
    assert steps_between(replicas(*current), replicas(*target), size) == steps


def test_progress_survives_a_restart() -> None:
    """It is computed from the assignment."""
    begun = Starting(LeaderEpoch(1), None)
    view = a_view(1).with_reassignment(tp(), (3, 4, 5), begun, original=(0, 1, 2), step=1).view
    reassignment = view.reassignments.by_partition[tp()]
    expected = {(0, 1, 2, 3): 1, (0, 2, 3, 4): 2, (0, 3, 4, 5): 3, (3, 4, 5): 4}
    for current, step in expected.items():
        assert step_numbers(replicas(*current), reassignment, Options()) == (step, 4)


def test_progress_without_originals_counts_what_is_left() -> None:
    """The steps seen and the steps left."""
    stopping = Stopping(frozenset(), frozenset(), Instant(0.0))
    view = a_view(1).with_reassignment(tp(), (3, 4), stopping, original=None, step=2).view
    assert step_numbers(replicas(1, 3), view.reassignments.by_partition[tp()], Options()) == (2, 4)


def test_reasons_against_the_native_engine_are_in_the_status() -> None:
    """Status says why native is not possible here."""
    view = a_view(1, options=Options(controller_id=1)).view
    assert "is the id of a broker" in status(view)["refused_because"][0]


def test_entries_that_are_not_judged_yet_are_not_done() -> None:
    """A large request is accepted in chunks."""
    view = a_view(1, 2, 3).view
    name = "request_0000000001"
    entries = {tp(n): replicas(1, 3) for n in range(1000)}
    view.requests_session.submissions[name] = Submission(name, entries, ZkVersion(0), Zxid(1), 0)
    request = Request(Route.REQUEST, Instant(990.0), kind="request", total=1000)
    request.parts[name] = Part(name, 1000, 0)
    view.requests.by_id[RequestId(name)] = request
    (found,) = status(view)["requests"]
    assert found["state"] == "waiting"
    assert (found["partitions"]["done"], found["partitions"]["waiting"]) == (0, 1000)
    request.settled.update(tp(n) for n in range(500))
    view.requests_session.judged[name] = 400
    (found,) = status(view)["requests"]
    assert (found["partitions"]["done"], found["partitions"]["waiting"]) == (500, 500)
    del view.requests_session.submissions[name]
    (found,) = status(view)["requests"]
    assert (found["state"], found["partitions"]["done"]) == ("done", 1000)


PAUSE = Pause("disk swap", "ann@desk", 1_750_000_000_000)
PAUSED = {"reason": "disk swap", "by": "ann@desk", "since_ms": 1_750_000_000_000}


def test_every_pause_has_who_and_why() -> None:
    """With the kill switch and the live throttle."""
    view = a_view(1).view
    view.requests_session.kill_switch = True
    view.pacing_process.controls = Controls(
        Pauses(PAUSE, {REQUEST: PAUSE}, {BrokerId(5): PAUSE}, Quiesce("disk swap")),
        throttle=50_000_000,
    )
    assert controls_of(view) == {
        "paused": {
            "everything": PAUSED,
            "requests": {REQUEST: PAUSED},
            "brokers": {"5": PAUSED},
            "quiesce": {"reason": "disk swap", "by": "", "since_ms": 0, "deadline_ms": None},
        },
        "disabled": True,
        "throttle": 50_000_000,
        "digest": view.pacing_process.controls.digest,
    }


def a_view_of_three() -> ClusterView:
    """Return a view with a partition that copies, one in flight, and one that is pending."""
    built = a_view(1, 2, 3, 4).with_reassignment(tp(0), (4,), Syncing(), step=1)
    built.with_reassignment(tp(1), (4,), Syncing(), step=1)
    return built.with_reassignment(tp(2), (4,)).view


def test_a_request_has_the_state_of_what_is_worst() -> None:
    """Blocked, then held, then in flight; with the number of partitions of each reason."""
    view = a_view_of_three()
    (request,) = status(view)["requests"]
    assert (request["state"], state_words(request)) == ("in_flight", "in flight")
    view.pacing_process.controls = Controls(Pauses(PAUSE))
    (request,) = status(view)["requests"]
    assert (request["state"], state_words(request)) == ("held", "paused: 1 of 3")
    assert request["reason"] == "everything is paused by ann@desk: disk swap"
    dead = Blocked(BlockedBy.BROKER_DEAD, "broker 4 is dead")
    view.reassignments.by_partition[tp(1)].blocked = dead
    (request,) = status(view)["requests"]
    assert (request["state"], state_words(request)) == ("blocked", "blocked: 1 of 3")
    assert request["reason"] == "broker 4 is dead"
    assert [(w["by"], w["partitions"]) for w in request["waits"]] == [
        ("broker_dead", 1),
        ("paused", 1),
    ]


def test_a_paused_request_whose_steps_end_is_paused() -> None:
    """Nothing of it waits yet, and nothing more begins."""
    view = a_view(1, 4).with_reassignment(tp(0), (4,), Syncing(), step=1).view
    view.pacing_process.controls = Controls(Pauses(requests={REQUEST: PAUSE}))
    (request,) = status(view)["requests"]
    assert (request["state"], state_words(request)) == ("held", "paused")


def test_a_request_outside_of_its_window_waits_for_it() -> None:
    """With the instant at which it opens."""
    view = a_view_of_three()
    view.pacing_process.wall = (Instant(0.0), 12 * 3600.0)
    view.pacing_process.controls = Controls(limits=Limits(window=Window(60, 120)))
    (request,) = status(view)["requests"]
    assert state_words(request) == "waiting for the window: 1 of 3"


@pytest.mark.parametrize(
    ("entries", "is_over", "state", "words"),
    [
        (4, True, "undone", "undone"),
        (1, True, "undone", "undone in part"),
        (4, False, "undoing", "being undone"),
    ],
)
def test_an_undone_request_is_not_done(
    *, entries: int, is_over: bool, state: str, words: str
) -> None:
    """The cancellation counted what it undoes; a bar would say nothing beside its bytes."""
    view = a_view(1).view
    cancel = RequestId("cancel-0000000000000009")
    done = Request(Route.REQUEST, Instant(1.0), kind="request", total=4, has_ended=True)
    undoing = Request(Route.REQUEST, Instant(2.0), kind="cancel", has_ended=is_over)
    undoing.add_part(Part("0", 0, 0, cancels={RequestId("r-9"): 2}, undoes={REQUEST: entries}))
    view.requests.by_id = {REQUEST: done, cancel: undoing}
    if is_over:
        view.requests.ended[cancel] = EndedHistory((), Zxid(0), undoing.undoes)
    document = status(view)
    by_id = {r["id"]: r for r in document["requests"]}
    request = by_id[REQUEST]
    assert (request["state"], state_words(request), request["share"]) == (state, words, None)
    assert (request["partitions"]["done"], request["partitions"]["undone"]) == (
        4 - entries,
        entries,
    )
    assert request["undone_by"] == cancel
    assert by_id[cancel]["undoes"] == {REQUEST: entries}
    assert by_id[cancel]["cancels"] == {"r-9": 2}
    assert document["undone"] == {REQUEST: {"by": cancel, "entries": entries, "open": not is_over}}


@pytest.mark.parametrize("is_undo", [False, True])
def test_a_request_that_is_moved_back_says_so(*, is_undo: bool) -> None:
    """Its bytes are those of the way back: no bar, and no amount that was copied."""
    built = a_view(1, 2, 3).with_partition(tp(), (1, 2, 3), adding=(3,))
    view = built.with_reassignment(tp(), (1, 2), Syncing(), original=(1, 2), step=1).view
    cancel = RequestId("cancel-0000000000000009")
    running = view.reassignments.by_partition[tp()]
    running.spec = replace(running.spec, cancelled_by=cancel)
    view.disks_process.sizes[tp()] = 1000
    view.requests.by_id[REQUEST].done_here = 1
    if is_undo:
        undoing = Request(Route.REQUEST, Instant(2.0), kind="cancel")
        undoing.add_part(Part("0", 0, 0, undoes={REQUEST: 1}))
        view.requests.by_id[cancel] = undoing
    (request,) = (r for r in status(view)["requests"] if r["id"] == REQUEST)
    words = "being undone" if is_undo else "rolling back"
    assert (request["state"], request["partitions"]["rolling_back"]) == ("in_flight", 1)
    assert (request["share"], volume_of(request)) == (None, None)
    line = request_line(request)
    assert line.startswith(f"request {REQUEST}: {words}, ")
    assert (f"being undone by {cancel}" in line) is is_undo
    assert "copied" not in line


def test_a_drain_with_nothing_left_stands() -> None:
    """It is open until it is stopped: done would be over."""
    view = a_view(1).view
    drain = Request(Route.REQUEST, Instant(1.0), kind="drain", total=2)
    view.requests.by_id = {RequestId("drain-0000000000000009"): drain}
    (request,) = status(view)["requests"]
    assert request["state"] == "standing"


def test_a_drain_without_a_reason_is_named_by_its_brokers() -> None:
    """Its id says nothing to an operator."""
    view = a_view(1).view
    name = RequestId("drain-0000000000000009")
    view.requests.by_id = {name: Request(Route.REQUEST, Instant(1.0), kind="drain", total=2)}
    drains = Drains({BrokerId(b): Drain() for b in (6, 5)}, czxid=Zxid(9))
    observe(view, ControlsRead(Controls(drains=drains)), Instant(0.0))
    (request,) = status(view)["requests"]
    assert request["asked_for"] == "drain of broker 5,6"


def test_drained_brokers_are_listed_with_what_is_left() -> None:
    """In flight and pending replicas count until they are dropped."""
    view = a_view(1).with_partition(tp(0), (5, 1)).with_partition(tp(1), (2, 1)).view
    drains = Drains({BrokerId(b): Drain("swap", "ann", 1) for b in (5, 6)}, czxid=Zxid(7))
    observe(view, ControlsRead(Controls(drains=drains)), Instant(0.0))
    request = "drain-0000000000000007"
    about: dict[str, object] = {
        "reason": "swap",
        "by": "ann",
        "since_ms": 1,
        "approved_by": "",
        "request": request,
    }
    about["hold"] = None
    assert status(view)["drains"] == [
        {"broker": 5, **about, "live": False, "replicas": 1, "reassignments": 0},
        {"broker": 6, **about, "live": False, "replicas": 0, "reassignments": 0},
    ]


def test_a_dead_broker_that_is_drained_stays_among_the_brokers() -> None:
    """Its replicas are dropped before their successors have copied: only reassignments are left."""
    view = a_view(1, 2).with_partition(tp(0), (1,)).view
    drains = Drains({BrokerId(5): Drain("swap", "ann", 1)}, czxid=Zxid(7))
    observe(view, ControlsRead(Controls(drains=drains)), Instant(0.0))
    ViewBuilder(view).with_reassignment(tp(0), (1, 2), original=(1, 5))
    running = view.reassignments.by_partition[tp(0)]
    running.spec = replace(running.spec, request=drains.request)
    judge_all(view)
    found = status(view)
    assert [(d["replicas"], d["reassignments"]) for d in found["drains"]] == [(1, 1)]
    assert [load["broker"] for load in found["broker_loads"]] == [1, 2, 5]
    assert found["dead_brokers"] == []


def test_evacuated_brokers_are_listed_with_author_and_reason() -> None:
    """An unreadable znode leaves them as they were, and pauses nothing."""
    view = a_view(1, 2).view
    found = {BrokerId(2): Evacuation("kernel", "ann", 1), BrokerId(9): Evacuation(returning=True)}
    observe(view, ControlsRead(Controls(evacuated=found)), Instant(0.0))
    listed = [
        {"broker": 2, "reason": "kernel", "by": "ann", "since_ms": 1, "returning": False}
        | {"live": True, "verdict": None},
        {"broker": 9, "reason": "", "by": "", "since_ms": 0, "returning": True}
        | {"live": False, "verdict": None},
    ]
    assert status(view)["evacuations"] == listed
    observe(view, ControlsRead(Controls(evacuated=None)), Instant(1.0))
    assert status(view)["evacuations"] == listed
    assert status(view)["controls"]["paused"]["everything"] is None
    observe(view, ControlsRead(Controls()), Instant(2.0))
    assert status(view)["evacuations"] == []


def test_a_drain_that_cannot_empty_its_broker_is_not_done() -> None:
    """A partition without a target waits, and the request says for what."""
    view = a_view(1, 5).with_partition(tp(0), (5, 1)).view
    drains = Drains({BrokerId(5): Drain("swap", "ann", 1)}, czxid=Zxid(7))
    part = Part("0", 0, 1, drains.options)
    apply(view, PartRecord(drains.request, part), Instant(0.0))
    observe(view, ControlsRead(Controls(drains=drains)), Instant(0.0))
    (request,) = status(view)["requests"]
    assert request["state"] == "blocked"
    assert "1 broker is live and not drained" in request["reason"]
    assert request["partitions"]["waiting"] == request["partitions"]["total"] == 1
    assert request["share"] == 0.0


def test_limits_are_live_ones_or_those_of_the_settings() -> None:
    """Each limit of all, by the name it is turned by."""
    view = a_view(1, options=Options(step_size=None, max_incoming_per_broker=7)).view
    view.pacing_process.controls = Controls(
        limits=Limits(max_partitions_in_flight=3, order=QueueOrder.SMALL_FIRST)
    )
    found = limits_of(view)
    of_throttles = {"throttle", "configured_throttle", "throttle_min", "throttle_max"}
    known = {f.name for f in fields(Limits)} - {"brokers", "requests"}
    assert set(found) == known | of_throttles | {"latency_objective_s"}
    assert found["max_partitions_in_flight"] == 3
    assert found["max_incoming_per_broker"] == 7
    assert found["step_size"] == "all"
    assert found["order"] == "small_first"
    assert found["max_bytes_in_flight"] is None


def test_governed_rates_have_their_evidence_and_what_is_measured() -> None:
    """The rates of a throttle auto, in the status and in the words of commands and pages."""
    view = a_view(1, 2).view
    slow = Signal(
        kind=SignalKind.PROBE,
        value=0.7,
        objective=0.5,
        since=Instant(NOW.now - 2),
        at=Instant(NOW.now - 1),
        evidence="broker 1 acknowledges in 0.7 s",
        broker=BrokerId(1),
        median=0.2,
    )
    cut = GovernedRate(8_000_000, Instant(NOW.now - 5), slow.evidence, slow, misses=1)
    calm = GovernedRate(90_000_000, NOW.now, "the lowest rate, to begin with")
    view.pacing_leadership.rates = {BrokerId(1): cut, BrokerId(2): calm}
    view.pacing_process.readings[SignalKind.PROBE, BrokerId(1)] = deque([slow])
    view.pacing_process.unmeasured = {SignalKind.QUERY: "no answer"}
    found = status(view)
    one = found["governor"]["brokers"]["1"]
    assert (one["bytes_per_s"], one["signal"], one["value"]) == (8_000_000, "probe", 0.7)
    assert (one["p50_s"], one["p99_s"], one["is_missed"]) == (0.2, 0.7, True)
    assert found["governor"]["brokers"]["2"]["p99_s"] is None
    first, lowest, unchanged, unmeasured = governor_lines(found)
    assert first == "throttle auto: 2 brokers, objective 500 ms"
    assert lowest.startswith("  broker 1: 8 MB/s, lowered at ")
    assert lowest.endswith(": broker 1 acknowledges in 0.7 s; its own probe now: up to 700 ms")
    assert unchanged.startswith("  broker 2: 90 MB/s, set at ")
    assert unchanged.endswith(": the lowest rate, to begin with")
    assert unmeasured == "  no reading of the query: no answer"


def test_orphans_are_listed_with_their_directory(engine: EngineName) -> None:
    """Only the native engine has brokers delete their logs."""
    view = a_view(1, 4).view
    view.role.engine = engine
    for number in (4, 5):
        orphan = Orphan(BrokerId(number), tp(), Zxid(30), "not live")
        view.reassignments.orphans[BrokerId(number), tp()] = orphan
    view.reassignments_tenure.orphan_logs[BrokerId(4), tp()] = "/data"
    named, away = status(view)["orphans"]
    assert (named["broker"], named["directory"], away["directory"]) == (4, "/data/t-0", None)
    assert {named["reason"], away["reason"]} == {"not live"}
    if engine is EngineName.NATIVE:
        assert named["what_to_do"] == "nothing: the deletion follows when no live replica lags"
        assert away["what_to_do"] == "nothing: the deletion follows when that broker is back"
    else:
        assert "stop the broker, run `rm -r /data/t-0` on its machine" in named["what_to_do"]
        assert away["what_to_do"].startswith("start the broker")
