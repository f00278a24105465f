"""
The journal holds what ``docs/reference/journal.md`` says, whatever happens.

Every record there is, made up at random, and every line that daemons write in simulated histories
full of faults, is held against the schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.core.cluster.model import LiveBroker
from controller.core.model import TopicPartition
from controller.core.pacing.controls import Limits, Pause, Pauses
from controller.core.records import Record
from controller.core.requests.submissions import RequestOptions
from controller.core.view import ClusterView
from controller.doctor.journal_checks import journal_findings
from controller.reactor.loop import Reactor
from controller.telemetry.journal import (
    KINDS_OF_RECORDS,
    VERSION,
    Journal,
    kind_named,
    kind_of,
    line_of,
)
from controller.telemetry.metrics import Metrics
from controller.telemetry.observer import TelemetryObserver
from controller.telemetry.status_publisher import StatusPublisher
from docs.generate.journal_events import EVENTS, RECORDS
from docs.generate.journal_kinds import LIFE, is_of
from integration.rigs.failpoint_names import NamedFailpoints
from tests.core.disks.reports import report
from tests.sim.daemons import Ports
from tests.sim.faults import Faults
from tests.sim.histories import is_finished
from tests.sim.operators import Operators
from tests.sim.plots import RESTLESS, Plot, plot_of
from tests.sim.world import World
from tests.telemetry.builders import START, RecordedLog

KINDS: Final = {**LIFE, **RECORDS, **EVENTS}
COMMON: Final = frozenset({"v", "at", "kind"})
JOURNALED: Final = [r for r in get_args(Record) if r.is_journaled]


def check(line: Mapping[str, Any]) -> None:
    """Hold a line against the schema."""
    assert line["v"] == VERSION
    kind = KINDS.get(line["kind"])
    assert kind is not None, f"unknown kind: {line}"
    fields = line.keys() - COMMON
    assert fields - kind.fields.keys() == set(), line
    assert kind.fields.keys() - kind.optional - fields == set(), line
    for name in fields:
        wanted, _ = kind.fields[name]
        assert is_of(line[name], wanted), f"{line['kind']}.{name} is no {wanted}: {line[name]!r}"


def test_kinds_have_unique_names() -> None:
    """One name, one meaning."""
    assert len(KINDS) == len(LIFE) + len(RECORDS) + len(EVENTS)


@pytest.mark.parametrize("record_type", JOURNALED, ids=lambda r: r.__name__)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_record_is_in_the_schema(record_type: type[Record], data: st.DataObject) -> None:
    """A new record needs documentation of its fields."""
    record = data.draw(st.from_type(record_type))
    check(json.loads(line_of(START, kind_of(record), record)))


def test_schema_has_only_existing_records() -> None:
    """What was removed from the code goes from the documentation."""
    assert set(RECORDS) == {kind_named(record.__name__) for record in JOURNALED}
    assert set(KINDS_OF_RECORDS) <= {record.__name__ for record in JOURNALED}


class ReportedSizes:
    """Brokers that report sizes as soon as they are asked."""

    def __init__(self) -> None:
        """Wait for a loop."""
        self.reactor: Reactor | None = None

    def describe(
        self,
        brokers: Sequence[LiveBroker],
        partitions: Sequence[TopicPartition],
        *,
        is_whole: bool,  # noqa: ARG002 - all is reported
    ) -> None:
        """Report to the loop."""
        assert self.reactor is not None
        sizes = dict.fromkeys(partitions, 1000)
        for broker in brokers:
            self.reactor.put(report(broker.id, sizes, epoch=broker.epoch))

    def alter(self, broker: LiveBroker, replicas: Mapping[TopicPartition, str]) -> None:
        """Do nothing: no entry names a directory."""

    def forget(self) -> None:
        """Do nothing: nothing waits."""


def request_everything(world: World) -> None:
    """Use every way in which operators ask for something, well and badly."""
    plan = {TopicPartition("three", n): [1, 2, 3 + n % 3] for n in range(4)}
    world.submit_request(plan, RequestOptions(reason="drain", requested_by="kim", throttle=10**6))
    world.submit_request({TopicPartition("nothing", 0): [1]}, RequestOptions())
    world.submit_queue(plan)
    world.pause(Pauses(everything=Pause("lunch")))
    world.limit(Limits(max_partitions_in_flight=3))
    world.throttle(5_000_000)
    world.run_for(5.0)
    world.pause(Pauses())
    world.disable()
    world.run_for(2.0)
    world.enable()
    world.cancel(topics=["three"])
    world.run_for(5.0)


def history(seed: int, directory: Path) -> list[dict[str, Any]]:
    """Play a history in which daemons write journals; return the lines of all of them."""
    plot: Plot = plot_of(seed)
    world = World(seed, has_kafka_controllers=plot.has_kafka_controllers)
    journals: list[Journal] = []

    def build(ports: Ports) -> Reactor:
        def wall() -> datetime:
            return START + timedelta(seconds=ports.clock.now())

        journal = Journal(directory / str(len(journals)))
        journals.append(journal)
        publisher = StatusPublisher(
            clock=ports.clock, wall=wall, engine="native", stalled_after_s=2.0
        )
        observer = TelemetryObserver(
            log=RecordedLog(),
            metrics=Metrics(),
            journal=journal,
            publisher=publisher,
            clock=ports.clock,
            wall=wall,
        )
        sizes = ReportedSizes()
        sizes.reactor = Reactor(
            view=ClusterView(options=plot.options),
            store=ports.store,
            channels=ports.channels,
            configs=ports.configs,
            log_dirs=sizes,
            clock=ports.clock,
            observer=observer,
            failpoints=NamedFailpoints(ports.reached),
            lease=ports.lease,
        )
        return sizes.reactor

    try:
        three = {n: [1 + n % 5, 1 + (n + 1) % 5, 1 + (n + 2) % 5] for n in range(4)}
        world.create_topic("three", three)
        operators = Operators(world, every_s=2.0, actions=RESTLESS)
        faults = Faults(
            world,
            every_s=plot.fault_every_s,
            weights=plot.weights,
            daemon=build,
            daemons=plot.daemons,
        )
        world.invariants.records.step_size = plot.options.step_size
        for _ in range(plot.daemons):
            world.add_daemon(build)
        world.run_for(3.0)
        faults.start()
        operators.start()
        operators.submit_plan_for_all()
        world.run_for(10.0)
        request_everything(world)
        operators.submit_plan_for_all()
        world.run_for(20.0)
        operators.stop()
        faults.heal()
        world.run_until(lambda: is_finished(world), within_s=200.0, look_every_s=0.5)
        world.run_for(5.0)
    finally:
        for journal in journals:
            journal.start()
            journal.close()
    files = directory.glob("*/journal.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


SEEDS: Final = (1, 2, 3, 5)
EXPECTED: Final = frozenset(
    {
        *("request_begun", "progress", "request_ended", "size", "phase", "copied", "stalled"),
        *("blocked", "unblocked", "accepted", "goal", "goal_ended", "refusal", "outcome"),
        *("assignment", "state", "claimed", "controller_role_ended", "plan_seen"),
        *("cancellation_seen", "pauses_changed", "limits_changed", "throttle_changed"),
        *("disabled", "enabled", "lease", "lease_ended", "broker_died", "broker_joined"),
    }
)
"""Without these a history would prove little."""


def test_lines_of_whole_histories_are_in_the_schema(tmp_path: Path) -> None:
    """With faults and operators; and no step breaks a rule."""
    seen = set()
    for seed in SEEDS:
        for line in history(seed, tmp_path / str(seed)):
            check(line)
            seen.add(line["kind"])
        for journal in tmp_path.glob(f"{seed}/*/journal.jsonl"):
            (summary,) = journal_findings(str(journal), journal.read_text().splitlines())
            assert summary.check == "journal_checked"
    assert EXPECTED - seen == set()
