"""
A small simulated cluster with one daemon, played by the commands of a scenario.

The daemon is the real one above its ports: loop, core, codecs. ZooKeeper, brokers and Kafka's own
controller are those of ``tests.sim``, without chance: every delay has its mean length, so what is
decided at one instant is written and sent at one instant. After each command the cluster runs until
nothing is written or sent for ``QUIET_S``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, cast

from controller.core.core_settings import (
    EngineName,
    ForeignMoves,
    LegacyMode,
    Options,
    TenurePolicy,
)
from controller.core.model import (
    BrokerId,
    MinFree,
    PartitionAssignment,
    RequestId,
    TopicConfig,
    TopicPartition,
)
from controller.core.pacing.controls import (
    Drain,
    Drains,
    Limits,
    Pause,
    Pauses,
    RequestLimits,
    UnderMinIsr,
)
from controller.core.pacing.records import WallClockRead
from controller.core.requests.submissions import CancelScope, RequestOptions, StepSize, Window
from controller.core.view import ClusterView
from controller.reactor.loop import Reactor
from controller.setting_values import parse_min_free
from controller.telemetry.copies import Copies
from controller.telemetry.json_values import Clocks
from controller.telemetry.partition_documents import Filter, PartitionDocuments
from controller.telemetry.progress import ProgressTracker
from controller.units import parse_bytes
from controller.znodes import paths
from controller.znodes.json_documents import read_window
from controller.znodes.plans import encode_legacy_plan
from integration.rigs.failpoint_names import NamedFailpoints
from integration.rigs.failpoints import Failpoint
from tests.scenarios import descriptions
from tests.scenarios.scenario_files import NO_OUTPUT, Command
from tests.scenarios.transcripts import Transcript
from tests.sim.alter_api import SimAlterApi
from tests.sim.alter_rules import AlterRules
from tests.sim.builders import ids
from tests.sim.daemons import Ports, SimDaemon
from tests.sim.directories import SimLogDirs
from tests.sim.disks import SimDisks
from tests.sim.histories import SilentObserver
from tests.sim.schedule import Schedule
from tests.sim.store import SimStore
from tests.sim.world import World
from tests.sim.zookeeper import NO_SESSION, Put

QUIET_S: Final = 5.0
"""A command ends when nothing was written or sent for so long."""
COMMAND_MAX_S: Final = 120.0
"""A command that has no such pause ends then."""
AWAKE_EVERY_S: Final = 1.0
DISK_BYTES: Final = 10**12
RECORD_BYTES: Final = 10**7
"""A partition grows by 50 MB in a second."""


class MeanDelays(random.Random):
    """No chance: every delay has its mean length, and what is improbable does not happen."""

    def uniform(self, a: float, b: float) -> float:
        """Return the middle."""
        return (a + b) / 2

    def random(self) -> float:
        """Return the middle."""
        return 0.5


class MeanSchedule(Schedule):
    """Virtual time in which nothing happens by chance."""

    def __init__(self) -> None:
        super().__init__(0)
        self.random = MeanDelays(0)


class ScenarioError(Exception):
    """A scenario has a command that does not exist or cannot be carried out."""


class ScenarioCluster:
    """Carries out commands and describes what the daemon decides."""

    def __init__(self) -> None:
        """Begin without a cluster: ``cluster`` has to be the first command."""
        self._commands: Mapping[str, Callable[[Command], None]] = {
            "cluster": self._cluster,
            "topic": self._topic,
            "topic-config": self._topic_config,
            "start-daemon": lambda _: self._start_daemon(),
            "crash-daemon": self._crash_daemon,
            "submit": self._submit,
            "legacy-plan": self._legacy_plan,
            "queue": self._queue,
            "cancel": self._cancel,
            "pause": self._pause,
            "resume": lambda _: self._world.pause(Pauses()),
            "drain": self._drain,
            "limits": self._limits,
            "throttle": self._throttle,
            "disable": lambda _: self._world.disable(),
            "enable": lambda _: self._world.enable(),
            "broker-down": self._broker_down,
            "broker-shut-down": self._broker_shut_down,
            "broker-up": self._broker_up,
            "broker-restart": self._broker_restart,
            "broker-replaced": self._broker_replaced,
            "hold-requests": self._hold_requests,
            "deliver-requests": lambda _: self._world.fabric.network.deliver(),
            "stop-fetching": self._stop_fetching,
            "resume-fetching": self._resume_fetching,
            "free-space": self._free_space,
            "delay-answers": self._delay_answers,
            "assign": self._assign,
            "alter": self._alter,
            "delete-topic": lambda command: self._world.delete_topic(*command.words),
            "elect-preferred": self._elect_preferred,
            "advance": self._advance,
        }

    def execute(self, command: Command) -> str:
        """
        Carry out a command and describe what follows from it.

        Raises:
            ScenarioError: There is no such command, or it cannot be carried out.

        """
        action = self._commands.get(command.name)
        if action is None:
            raise ScenarioError(f"no command {command.name!r}; known: {', '.join(self._commands)}")
        if command.name == "cluster":
            action(command)
            return NO_OUTPUT
        self._transcript.clear()
        action(command)
        if command.name not in ("advance", "topic"):
            self._run_until_quiet()
        lines = [*self._transcript.lines(), *descriptions.progress(self._documents())]
        return "\n".join(lines) or NO_OUTPUT

    # --- time ----------------------------------------------------------------------------------

    def _run_until_quiet(self) -> None:
        world = self._world
        end = world.now + COMMAND_MAX_S
        self._transcript.last_at = world.now
        while (at := world.schedule.next_at()) is not None:
            quiet_at = min(self._transcript.last_at + QUIET_S, end)
            if at > quiet_at:
                world.run_for(quiet_at - world.now)
                return
            world.step()

    def _advance(self, command: Command) -> None:
        self._world.run_for(_seconds(*command.words))

    # --- the cluster ---------------------------------------------------------------------------

    def _cluster(self, command: Command) -> None:
        options = command.options
        brokers = int(options.pop("brokers"))
        has_endpoint = options.pop("endpoint", "off") == "on"
        is_silent = options.pop("delete_topics", "on") == "unknown"
        self._options = _daemon_options(options)
        self._world = world = World(
            0, brokers=brokers, schedule=MeanSchedule(), has_endpoint=has_endpoint
        )
        world.fabric.deletes_topics = None if is_silent else True
        world.fabric.needs_producer_ids = False
        world.fabric.network.delay_s = (0.01, 0.01)
        self._disks = SimDisks(world.fabric, DISK_BYTES, RECORD_BYTES)
        world.run_for(5.0)
        self._transcript = Transcript(world)
        self._start_daemon()
        world.producer.start()
        self._keep_awake()
        world.run_for(5.0)

    def _keep_awake(self) -> None:
        """Give the daemon a turn now and then, as its host does."""
        for daemon in self._world.daemons:
            daemon.put(WallClockRead(self._world.schedule.unix_s()))
        self._world.schedule.call_in(AWAKE_EVERY_S, self._keep_awake)

    def _topic(self, command: Command) -> None:
        options = command.options
        name = command.words[0]
        replicas = {int(k.rpartition("-")[2]): _ids(v) for k, v in command.entries.items()}
        self._world.create_topic(
            name,
            replicas,
            min_insync_replicas=int(options.get("min.insync.replicas", "1")),
            unclean_leader_election=options.get("unclean.leader.election.enable") == "true",
        )
        self._world.run_for(QUIET_S)
        self._transcript.clear()

    def _topic_config(self, command: Command) -> None:
        (name,) = command.words
        before = self._world.fabric.config(name)
        minimum = command.options.get("min.insync.replicas", before.min_insync_replicas)
        unclean = command.options.get("unclean.leader.election.enable")
        after = TopicConfig(
            int(minimum), before.unclean_leader_election if unclean is None else unclean == "true"
        )
        self._world.fabric.change_config(name, after)

    def _broker_down(self, command: Command) -> None:
        for broker in _brokers(command):
            self._world.brokers[broker].stop()

    def _broker_shut_down(self, command: Command) -> None:
        """Let brokers ask the controller to move their leaderships, and stop after its answer."""
        for broker in map(self._world.brokers.__getitem__, _brokers(command)):
            if broker.to_controller is None:
                raise ScenarioError("without an endpoint, brokers do not ask the daemon")
            broker.to_controller.shut_down(broker.stop)

    def _broker_up(self, command: Command) -> None:
        for broker in _brokers(command):
            self._world.brokers[broker].start()

    def _broker_restart(self, command: Command) -> None:
        for broker in _brokers(command):
            self._world.brokers[broker].kill()
            self._world.brokers[broker].start()

    def _broker_replaced(self, command: Command) -> None:
        """Restart brokers with empty disks."""
        for broker in map(self._world.brokers.__getitem__, _brokers(command)):
            broker.kill()
            for directory in broker.directories:
                broker.empty_directory(directory)
            broker.start()

    def _hold_requests(self, command: Command) -> None:
        self._world.fabric.network.cut.update(_brokers(command))

    def _stop_fetching(self, command: Command) -> None:
        for broker in _brokers(command):
            self._world.brokers[broker].replication.extra_fetch_s = 1e9

    def _resume_fetching(self, command: Command) -> None:
        for broker in _brokers(command):
            replication = self._world.brokers[broker].replication
            replication.extra_fetch_s = 0.0
            for partition, replica in self._world.brokers[broker].hosted.items():
                replica.fetch_due = False
                replication.schedule_fetch(partition)

    def _free_space(self, command: Command) -> None:
        """Let other logs leave so much free on a broker, which has one disk."""
        number, free = command.words
        broker = self._world.brokers[BrokerId(int(number))]
        for directory in broker.directories:
            here = (broker.id, directory)
            self._disks.others.pop(here, None)
            others = self._disks.free(broker, directory) - parse_bytes("free-space", free)
            self._disks.others[here] = others

    def _delay_answers(self, command: Command) -> None:
        broker, delay = command.words
        # A delay is drawn between none and twice the mean.
        self._world.fabric.network.late_s[BrokerId(int(broker))] = 2 * _seconds(delay)

    def _assign(self, command: Command) -> None:
        """Write replicas into the topic znode, as a tool does that bypasses the controller."""
        for name, replicas in command.entries.items():
            partition = _partition(name)
            assignment = {partition.partition: PartitionAssignment(_ids(replicas))}
            self._world.assign(partition.topic, assignment)

    def _alter(self, command: Command) -> None:
        """Start a reassignment through Kafka's API, as its own tools do."""
        active = self._world.active_kafka_controller()
        if active is None or active.duties is None:
            raise ScenarioError("no broker is the controller")
        for name, target in command.entries.items():
            active.duties.alter(_partition(name), _ids(target))

    def _elect_preferred(self, command: Command) -> None:
        self._world.request_preferred_election([_partition(w) for w in command.words])

    # --- operators -----------------------------------------------------------------------------

    def _submit(self, command: Command) -> None:
        given = dict(command.options)
        step_size, named = given.pop("step_size", None), given.pop("log_dirs", "")
        log_dirs = tuple((BrokerId(int(b)), path) for b, path in _pairs(named))
        options = RequestOptions(
            priority=int(given.pop("priority", "0")),
            step_size=None if step_size is None else _step_size(step_size),
            throttle=_number(given.pop("throttle", None)),
            max_partitions_in_flight=_number(given.pop("max_partitions_in_flight", None)),
            atomic=given.pop("atomic", "false") == "true",
            tolerate_lagging=_ids(given.pop("tolerate_lagging", "")),
            elect_leaders=given.pop("elect_leaders", "false") == "true",
        )
        if given:
            raise ScenarioError(f"no option {', '.join(given)}")
        plan = _plan(command)
        self._world.submit_request(plan, options, dict.fromkeys(plan, log_dirs) if named else {})

    def _legacy_plan(self, command: Command) -> None:
        """Write Kafka's own znode, or replace what is in it."""
        zookeeper = self._world.zookeeper
        if zookeeper.get(paths.LEGACY_PLAN) is None:
            self._world.submit_plan(_plan(command))
        else:
            data = encode_legacy_plan(_plan(command))
            zookeeper.transact(NO_SESSION, [Put(paths.LEGACY_PLAN, data)])

    def _queue(self, command: Command) -> None:
        self._world.submit_queue(_plan(command))

    def _cancel(self, command: Command) -> None:
        requests = [RequestId(w) for w in command.words if paths.is_submission(w)]
        partitions = [_partition(w) for w in command.words if not paths.is_submission(w)]
        scope = CancelScope(command.options.get("scope", CancelScope.IN_FLIGHT))
        throttle, window = command.options.get("throttle"), command.options.get("window")
        self._world.cancel(
            requests=requests,
            partitions=partitions,
            scope=scope,
            throttle=None if throttle is None else int(throttle),
            window=None if window is None else cast("Window", read_window(window)),
        )

    def _pause(self, command: Command) -> None:
        pause = Pause(reason=command.options.get("reason", ""))
        requests = {RequestId(w): pause for w in command.words if paths.is_submission(w)}
        brokers = {BrokerId(int(w)): pause for w in command.words if w.isdigit()}
        everything = None if command.words else pause
        self._world.pause(Pauses(everything, requests, brokers))

    def _drain(self, command: Command) -> None:
        """Let these brokers be drained and no others."""
        about = Drain(reason=command.options.get("reason", ""))
        self._world.drain(Drains(dict.fromkeys(_brokers(command), about)))

    def _limits(self, command: Command) -> None:
        named: dict[str, Any] = {
            k: UnderMinIsr(v) if k == "under_min_isr" else int(v)
            for k, v in command.options.items()
            if k != "tolerate_lagging"
        }
        brokers = _ids(command.options.get("tolerate_lagging", ""))
        tolerated = RequestLimits(tolerate_lagging=brokers or None)
        requests = {RequestId(w): tolerated for w in command.words}
        self._world.limit(Limits(**named, requests=requests))

    def _throttle(self, command: Command) -> None:
        (rate,) = command.words
        if rate == "none":
            self._world.zookeeper.remove_tree(paths.THROTTLE)
        else:
            self._world.throttle(int(rate))

    # --- the daemon ----------------------------------------------------------------------------

    def _start_daemon(self) -> None:
        world, options = self._world, self._options
        is_delegated = options.engine is EngineName.DELEGATED
        if is_delegated:
            world.invariants.records.fence = paths.EPOCH

        def build(ports: Ports) -> Reactor:
            inbox = cast("SimStore", ports.store).inbox
            alter_api = SimAlterApi(world, inbox, AlterRules(world), loss=0.0)
            entry = None if ports.endpoint is None else ports.endpoint.entry
            return Reactor(
                view=ClusterView(options=replace(options, endpoint=entry)),
                endpoint=ports.endpoint,
                store=ports.store,
                channels=ports.channels,
                configs=ports.configs,
                broker_settings=ports.configs,
                log_dirs=None if options.min_free is None else SimLogDirs(world.fabric, inbox),
                clock=ports.clock,
                observer=SilentObserver(),
                reassignments=alter_api if is_delegated else None,
                failpoints=NamedFailpoints(ports.reached),
                lease=ports.lease,
            )

        self._daemon: SimDaemon | None = world.add_daemon(build)
        self._transcript.daemons.append(self._daemon)

    def _crash_daemon(self, command: Command) -> None:
        """Crash at once, or at the failpoint that is named."""
        daemon = self._running_daemon()
        failpoint = command.options.get("at")
        if failpoint is None:
            daemon.crash()
        else:
            daemon.crash_at(Failpoint(failpoint))

    def _running_daemon(self) -> SimDaemon:
        if self._daemon is None or not self._daemon.is_alive:
            raise ScenarioError("no daemon runs")
        return self._daemon

    def _documents(self) -> list[dict[str, Any]]:
        """Return the reassignments as ``/status`` lists them."""
        if self._daemon is None or not self._daemon.is_alive:
            return []
        schedule = self._world.schedule
        clocks = Clocks(schedule.now(), datetime.fromtimestamp(schedule.unix_s(), UTC))
        view = cast("Reactor", self._daemon.loop).view
        documents = PartitionDocuments(view, clocks, Copies(), ProgressTracker(), 3600.0)
        return cast("list[dict[str, Any]]", documents.page(Filter())["partitions"])


# --- arguments -----------------------------------------------------------------------------------


def _ids(text: str) -> tuple[BrokerId, ...]:
    return ids([int(n) for n in text.split(",") if n])


def _brokers(command: Command) -> Iterator[BrokerId]:
    return (BrokerId(int(word)) for word in command.words)


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _plan(command: Command) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    return {_partition(name): _ids(replicas) for name, replicas in command.entries.items()}


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs in ``4:/data/1,5:/data/0``."""
    for pair in filter(None, text.split(",")):
        key, _, value = pair.partition(":")
        yield key, value


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _step_size(text: str) -> StepSize:
    return "all" if text == "all" else int(text)


def _seconds(text: str) -> float:
    number, unit = float(text[:-1]), text[-1]
    return number * {"s": 1.0, "m": 60.0}[unit]


def _daemon_options(given: dict[str, str]) -> Options:
    """Return the daemon's settings: the defaults, and what ``cluster`` names."""
    step_size = _step_size(given.pop("step_size", "1"))
    options = Options(
        step_size=None if step_size == "all" else step_size,
        engine=EngineName(given.pop("engine", "native")),
        foreign_moves=ForeignMoves(given.pop("foreign_moves", "wait")),
        legacy_mode=LegacyMode(given.pop("legacy_mode", "absorb")),
        max_partitions_in_flight=int(given.pop("max_partitions_in_flight", "100")),
        tenure=TenurePolicy(given.pop("tenure", "on_demand")),
        tenure_linger_s=float(given.pop("tenure_linger", "30")),
        stop_replica_timeout_s=float(given.pop("stop_replica_timeout", "60")),
        min_free=cast("MinFree | None", parse_min_free(given.pop("min_free", "none"))),
    )
    if given:
        raise ScenarioError(f"no setting {', '.join(given)}")
    return options
