"""
``docs/reference/recovery.md``, written from what the proof of recovery tries (``make recovery``).

A test compares the page with this text, so a boundary, a shape or a hand cannot be missing there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Final

from controller.reactor.failpoints import MEANING, Failpoint
from tests.sim.asked_shapes import EVERY
from tests.sim.shapes import KafkasEnd, kafkas_end

HEAD: Final = """\
# Recovery

Written from the boundaries in `controller/reactor/failpoints.py` and the shapes in
`tests/sim/shapes.py` and `tests/sim/asked_shapes.py` (`make recovery`); a test keeps this page
equal to them.

Whoever dies, dies between two writes or sends. Each such instant of a reassignment has a name,
and at each a daemon is killed, in the simulation and on real brokers, under a producer that
counts what was acknowledged. Then one of four hands takes over:

* **the daemon restarted**: a new process, nothing in memory, brokers held back so that it is
  first (on real brokers by another session, which holds `/controller` meanwhile; where a topic
  waits for its deletion, which is a broker's, none is held back there);
* **a standby daemon**: it was running and waiting, brokers held back as well;
* **Kafka's controller alone**: no daemon ever again;
* **Kafka's controller first, a daemon later**: when the brokers have nothing left to do, a daemon
  starts.

## What is true at the end of every cell

With a daemon in the end (three of the hands): every partition has exactly the replicas that were
asked for last, in order, all in sync (its originals where it was cancelled); the disks hold exactly
these; `/admin/reassign_partitions`, `/admin/reassignments`, `/admin/reassignment_requests`,
`/admin/cancel_reassignment_in_progress`, `/reassigner/throttles` and `/reassigner/orphans` are
empty; no throttle stands; every request has an outcome that adds up; every partition takes records.

With Kafka's controller alone: every partition has exactly the replicas that the znodes named when
the daemon died (the target where the legacy znode lists it, else the step in the topic znode,
else what it had), in sync; no directory is on a disk that neither an assignment nor a record of
ours accounts for; requests, cancellations and our records are untouched, so that a later daemon
finishes.

Always: no acknowledged record is lost, and none of the simulation's invariants is broken on the
way (`tests/sim/invariants.py`, `tests/sim/data_rules.py`).
"""


_BEGINS: Final = "reads the plan, accepts it and carries it out"
_RECORDED: Final = "finds the records of the goals and begins the first steps"
_REPEATS: Final = "finds the step in the topic znode: bumps the leader epoch, tells everybody anew"
_EXCLUDES: Final = (
    "excludes the dropped replicas anew, with a new leader epoch, and deletes them (again) once "
    "the leader acknowledged that"
)
_TURNS: Final = "finds the step in the topic znode and the record of another target: turns it round"
_DEALT_WITH: Final = "has nothing to do for it any more"
_FINAL: Final = "tells the final state as a claim does with every state, and goes on with the rest"

NEXT_DAEMON: Final[Mapping[Failpoint, str]] = {
    Failpoint.CLAIMED: _BEGINS,
    Failpoint.LIVE_BROKERS_TOLD: _BEGINS,
    Failpoint.REQUEST_OPENED: "reads the request and accepts it",
    Failpoint.BEFORE_ACCEPTED: _BEGINS,
    Failpoint.ACCEPTED: _RECORDED + ", accepts what was not accepted yet",
    Failpoint.REQUEST_DELETED: _RECORDED,
    Failpoint.BEFORE_THROTTLED: "sets the throttles, then begins the first steps",
    Failpoint.THROTTLED: "finds the leases and begins the first steps under their throttles",
    Failpoint.BEFORE_A1: _RECORDED,
    Failpoint.A1_WRITTEN: _REPEATS,
    Failpoint.A1_REPEATED: _REPEATS,
    Failpoint.UNLISTED: _REPEATS,
    Failpoint.A2_LEADER_TOLD: _REPEATS,
    Failpoint.A2_FOLLOWER_TOLD: _REPEATS,
    Failpoint.A2_UPDATE_METADATA_SENT: _REPEATS,
    Failpoint.SYNCED: "finds the target in sync and goes on with what follows",
    Failpoint.NEXT_STEP_WRITTEN: _REPEATS,
    Failpoint.B3_WRITTEN: _EXCLUDES,
    Failpoint.B3_LEADER_TOLD: _EXCLUDES,
    Failpoint.B3_UPDATE_METADATA_SENT: _EXCLUDES,
    Failpoint.EXCLUSION_ACKNOWLEDGED: _EXCLUDES,
    Failpoint.B4_STOP_REPLICA_SENT: _EXCLUDES,
    Failpoint.B5_DELETE_SENT: _EXCLUDES,
    Failpoint.B5_ACKNOWLEDGED: _EXCLUDES,
    Failpoint.DROPPED: "tells the added replicas anew and waits for their copies",
    Failpoint.STEP_ENDED: "begins the next step when nothing forbids it any more",
    Failpoint.BEFORE_RETARGETED: "finds the step in the topic znode, judges the request and turns "
    "the step round",
    Failpoint.RETARGETED: _TURNS,
    Failpoint.BEFORE_CANCELLED: "finds the step in the topic znode, records the way back and turns "
    "the step round",
    Failpoint.CANCELLED: _TURNS,
    Failpoint.CANCELLATION_CHOSEN: _TURNS,
    Failpoint.STEP_TURNED: _EXCLUDES,
    Failpoint.B6_WRITTEN: _FINAL,
    Failpoint.ORPHAN_RECORDED: "goes on with the plan; deletes the orphan when its broker is back",
    Failpoint.B8_LEADER_TOLD: _FINAL,
    Failpoint.B8_UPDATE_METADATA_SENT: _FINAL,
    Failpoint.ELECTION_WRITTEN: _FINAL,
    Failpoint.ELECTION_LEADER_TOLD: _FINAL,
    Failpoint.BEFORE_UNTHROTTLED: "finds leases that nothing needs: lifts their throttles",
    Failpoint.UNTHROTTLED: "lifts the other throttles",
    Failpoint.OUTCOME_WRITTEN: _DEALT_WITH,
    Failpoint.CANCELLATION_ENDED: _DEALT_WITH,
    Failpoint.PLAN_ENDED: "has nothing to do; a broker takes the role",
    Failpoint.ORPHAN_DELETE_SENT: "has the orphan deleted again and ends its record",
    Failpoint.ORPHAN_ENDED: "sees to the other orphans",
}
"""What a daemon does that takes over directly, restarted or standing by."""


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *_shapes(), "", *_table(), "", *_tests(), ""])


def _shapes() -> Iterator[str]:
    yield "## Shapes of a step"
    yield ""
    yield "| shape | what is special |"
    yield "|---|---|"
    for shape in EVERY:
        yield f"| {shape.name} | {shape.meaning} |"
    changed = ", ".join(f"`{shape.name}`" for shape in EVERY if shape.change is not None)
    yield ""
    yield f"In the shapes {changed} the daemon dies after what is asked second: the boundaries of a"
    yield "step are there those of the step that turns round, and of the ones that follow it."


def _table() -> Iterator[str]:
    yield "## Boundaries and hands"
    yield ""
    yield (
        "| the daemon dies at | that is when | shapes | restarted, standby | "
        "Kafka's controller alone | a daemon after Kafka's controller |"
    )
    yield "|---|---|---|---|---|---|"
    for failpoint in Failpoint:
        shapes = [shape for shape in EVERY if failpoint in shape.failpoints]
        tried = ", ".join(shape.name for shape in shapes)
        ends = list(dict.fromkeys(kafkas_end(shape, failpoint) for shape in shapes))
        yield (
            f"| `{failpoint}` | {MEANING[failpoint]} | {tried} | {NEXT_DAEMON[failpoint]} | "
            f"{'; '.join(map(_kafkas, ends))} | {'; '.join(map(_laters_end, ends))} |"
        )


def _kafkas(end: KafkasEnd) -> str:
    return f"carries out {end}" if end is not KafkasEnd.NOTHING else str(end)


def _laters_end(end: KafkasEnd) -> str:
    match end:
        case KafkasEnd.PLAN:
            return "finds the plan done and ends its records, if there are any"
        case KafkasEnd.IN_FLIGHT:
            return "carries out what waited; has deleted again what its records say was dropped"
        case KafkasEnd.UNSEEN:
            return "carries out the request"
        case KafkasEnd.NOTHING:
            return "sees to what is left of orphans and throttles"


def _tests() -> Iterator[str]:
    yield "## The tests"
    yield ""
    yield "| cells | test |"
    yield "|---|---|"
    module, real = "tests/sim/test_recoveries.py", "integration/test_boundaries.py"
    asked = "integration/test_boundaries_asked.py"
    cells = [
        (
            "every shape and boundary; restarted, standby, Kafka first",
            f"{module}::test_the_plan_is_carried_out_whoever_takes_over",
        ),
        (
            "every shape and boundary; Kafka alone",
            f"{module}::test_kafkas_controller_ends_what_it_finds_and_our_records_stay",
        ),
        (
            "the same boundaries in later steps, while other partitions are on their way",
            f"{module}::test_the_end_is_the_same_in_later_steps",
        ),
        (
            "every boundary of a plan's way and every hand, on real brokers",
            f"{real}::test_whoever_takes_over_the_plan_is_carried_out_and_no_record_is_lost",
        ),
        (
            "some of cancellations, other targets, requests and throttles, on real brokers",
            f"{asked}::test_whoever_takes_over_what_was_asked_for_last_is_so",
        ),
        (
            "one daemon after the other dies at the next boundary, on real brokers",
            f"{real}::test_daemons_die_at_one_boundary_after_the_other",
        ),
        (
            "a daemon is stopped there and wakes when others have taken over, on real brokers",
            "integration/test_frozen.py",
        ),
    ]
    for what, test in cells:
        yield f"| {what} | `{test}` |"
    yield ""
    yield "A cell is named by shape, boundary and hand: `[one-B6-written-a standby daemon]`. On"
    yield "real brokers Kafka's controller alone and a daemon after it are one run, judged twice."


if __name__ == "__main__":
    sys.stdout.write(page())
