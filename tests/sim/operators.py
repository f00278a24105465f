"""
The actions of operators and clients during faults: plans, their edits, creations and deletions.

Each kind of action is a method with a weight, drawn now and then as faults are. A new one is a line
in ``Actions``, a line in ``kinds`` and a method that returns a description, or None if it could not
be done. ``expected_targets`` keeps the requested targets, to compare them with the end of the
history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Final

from controller.core.model import Replicas, TopicPartition, ZkVersion, Zxid
from controller.reactor.ports import Delete
from controller.znodes import paths
from controller.znodes.plans import decode_legacy_plan, encode_legacy_plan
from tests.sim.control_rules import ControlRules
from tests.sim.expected_targets import ExpectedTargets
from tests.sim.ledgers import Ledger
from tests.sim.requesters import Requesters
from tests.sim.settings import Settings
from tests.sim.zookeeper import NO_SESSION, Put, Transaction, Znode

if TYPE_CHECKING:
    from tests.sim.world import World

TOPICS_MAX: Final = 5
PARTITIONS_MAX: Final = 9
LATER_S: Final = 3.0
BEHIND_S: Final = (7.5, 10.0)
"""The time after which a replica that is away has left the ISR."""
GONE_S: Final = (14.0, 25.0)
"""The time after which the last member of the ISR is back."""
Plan = dict[TopicPartition, Replicas]


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """The relative frequency of each kind of action; 0 is never."""

    plan_submitted: int = 6
    entry_added: int = 0
    entry_removed: int = 0
    entry_retargeted: int = 0
    plan_deleted: int = 0
    plan_replaced: int = 0
    topic_created: int = 0
    topic_deleted: int = 0
    topic_created_again: int = 0
    partitions_added: int = 0
    api_reassigned: int = 0
    api_cancelled: int = 0
    preferred_elected: int = 0
    request_submitted: int = 0
    request_in_parts: int = 0
    request_overtaking: int = 0
    leaders_moved: int = 0
    request_garbled: int = 0
    cancelled: int = 0
    cancel_garbled: int = 0
    disabled: int = 0
    paused: int = 0
    resumed: int = 0
    quiesced: int = 0
    limited: int = 0
    controls_garbled: int = 0
    queue_submitted: int = 0
    queue_garbled: int = 0
    throttled: int = 0
    settings_changed: int = 0
    unclean_toggled: int = 0
    min_isr_toggled: int = 0
    min_isr_raised_at_rest: int = 0
    isr_outlived: int = 0
    drained: int = 0
    drain_stopped: int = 0


class Operators:
    """Draws an action every now and then, until stopped."""

    def __init__(self, world: World, *, every_s: float, actions: Actions) -> None:
        """
        Prepare, without starting.

        Args:
            world: The cluster that they operate.
            every_s: Mean time between two actions.
            actions: The weights of the kinds of actions.

        """
        self._world = world
        self._every_s = every_s
        self._is_running = False
        self._created = 0
        if not actions.drained:
            world.zookeeper.unwatched.add(paths.DRAINS)
        self.settings = Settings(world.zookeeper, world.invariants.judge)
        """The values that operators chose in Kafka's dynamic settings."""
        self.ledger = Ledger(world)
        """The requests and cancellations, and their outcomes."""
        ControlRules(world, self.ledger, self.settings)
        self._requesters = Requesters(world, self.settings, self._target)
        self.expected = ExpectedTargets(self.ledger)
        """The targets that the legacy plans request."""
        world.zookeeper.listeners.append(self._transacted)
        self.done: Counter[str] = Counter()
        """The number of times that each action was done."""
        self._kinds: Mapping[str, Callable[[], str | None]] = {
            "plan_submitted": self._submit_plan,
            "entry_added": self._add_entry,
            "entry_removed": self._remove_entry,
            "entry_retargeted": self._retarget_entry,
            "plan_deleted": self._delete_plan,
            "plan_replaced": self._replace_plan,
            "topic_created": self._create_topic,
            "topic_deleted": self._delete_topic,
            "topic_created_again": self._create_again,
            "partitions_added": self._add_partitions,
            "api_reassigned": self._reassign_by_api,
            "api_cancelled": self._cancel_by_api,
            "preferred_elected": self._elect_preferred,
            "unclean_toggled": self._toggle_unclean,
            "min_isr_toggled": self._toggle_min_isr,
            "min_isr_raised_at_rest": self._raise_at_rest,
            "isr_outlived": self._outlive_isr,
            **self._requesters.kinds,
        }
        self._requests_too_few = actions.min_isr_toggled > 0
        self._names = [n for n in self._kinds if getattr(actions, n) > 0]
        self._weights = [getattr(actions, n) for n in self._names]

    def start(self) -> None:
        """Begin to act."""
        self._is_running = True
        self._later()

    def submit_plan_for_all(self) -> None:
        """Ask for a move of every partition, unless a plan is being carried out."""
        if self._entries() is None:
            plan = {p: self._target(p) for p in self._world.partitions()}
            self._world.fabric.note(f"plan for all: {self._submit(plan)}")

    def submit_request_for_all(self) -> None:
        """Submit a request to move every partition."""
        self._world.fabric.note(f"request for all: {self._requesters.submit_for_all()}")

    def stop(self) -> None:
        """Request nothing more, and remove every hold."""
        self._is_running = False
        self._requesters.heal()

    def _later(self) -> None:
        self._world.schedule.call_between(0.0, 2 * self._every_s, self._draw)

    def _draw(self) -> None:
        if self._is_running:
            name = self._chance.choices(self._names, self._weights)[0]
            if name == "topic_created" or self._world.partitions():  # else nothing to act on
                self._act(name)
            self._later()

    def _act(self, name: str) -> None:
        done = self._kinds[name]()
        if done is not None:
            self.done[name] += 1
            self._world.fabric.strike(name)
            self._world.fabric.note(f"{name}: {done}")

    @property
    def _chance(self) -> Random:
        return self._world.schedule.random

    # --- targets -------------------------------------------------------------------------------

    def _target(self, partition: TopicPartition) -> Replicas:
        """Draw other replicas, sometimes one more or one less."""
        world, chance = self._world, self._chance
        brokers = sorted(world.brokers)
        minimum = world.fabric.config(partition.topic).min_insync_replicas
        if self._requests_too_few and chance.random() < 0.2:
            # The daemon refuses it if it knows the setting.
            minimum = 1
        size = len(world.assignment(partition).target_replicas) + chance.choice((-1, 0, 0, 0, 1))
        return tuple(chance.sample(brokers, max(minimum, min(size, len(brokers)))))

    def _plan(self) -> Plan:
        partitions = self._world.partitions()
        if self._chance.random() < 0.4:
            partitions = self._chance.sample(partitions, self._chance.randint(1, len(partitions)))
        return {p: self._target(p) for p in partitions}

    # --- the legacy znode ----------------------------------------------------------------------

    def _entries(self) -> Plan | None:
        znode = self._world.zookeeper.get(paths.LEGACY_PLAN)
        return None if znode is None else _decoded(znode)

    def _transacted(self, transaction: Transaction) -> None:
        """Note the plan entries that daemons remove, and those that Kafka's controllers finish."""
        is_daemon = self._world.invariants.is_daemon(transaction.session)
        for written in transaction.written:
            if written.path != paths.LEGACY_PLAN or written.before is None:
                continue
            before = _decoded(written.before)
            after = {} if written.after is None else _decoded(written.after)
            if is_daemon:
                self.expected.plan_rewritten(self._world, before, after)
            elif transaction.session != NO_SESSION:
                self.expected.rewritten_by_kafka(self._world, before, after)

    def _rewrite(self, entries: Plan) -> None:
        write = Put(paths.LEGACY_PLAN, encode_legacy_plan(entries))
        self._world.zookeeper.transact(NO_SESSION, [write])

    def _submit_plan(self) -> str | None:
        """Write a plan as the stock tool does: only where there is none."""
        if self._entries() is not None or not self._world.partitions():
            return None
        return self._submit(self._plan())

    def _submit(self, plan: Plan) -> str:
        self._world.submit_plan(plan)
        self.expected.expect(plan)
        return _text(plan)

    def _add_entry(self) -> str | None:
        entries = self._entries()
        free = [p for p in self._world.partitions() if p not in (entries or ())]
        if entries is None or not free:
            return None
        partition = self._chance.choice(free)
        added = {partition: self._target(partition)}
        self._rewrite(entries | added)
        self.expected.expect(added)
        return _text(added)

    def _remove_entry(self) -> str | None:
        entries = self._entries()
        if not entries:
            return None
        partition = self._chance.choice(sorted(entries))
        del entries[partition]
        self._rewrite(entries)
        self.expected.take_back((partition,))
        return str(partition)

    def _retarget_entry(self) -> str | None:
        entries = self._entries()
        known = sorted(set(entries or ()) & set(self._world.partitions()))
        if not entries or not known:
            return None
        partition = self._chance.choice(known)
        entries[partition] = self._target(partition)
        self._rewrite(entries)
        self.expected.expect({partition: entries[partition]})
        return _text({partition: entries[partition]})

    def _delete_plan(self) -> str | None:
        """Delete the znode, as operators of old Kafka do to stop a plan."""
        if self._entries() is None:
            return None
        self._world.zookeeper.transact(NO_SESSION, [Delete(paths.LEGACY_PLAN, None)])
        self.expected.take_back_all()
        return "no plan is left"

    def _replace_plan(self) -> str | None:
        return None if self._delete_plan() is None else self._submit_plan()

    # --- topics --------------------------------------------------------------------------------

    def _topics(self) -> list[str]:
        """Return the topics that are not about to be deleted."""
        zookeeper = self._world.zookeeper
        doomed = zookeeper.children(paths.DELETIONS) or ()
        return sorted(t for t in zookeeper.children(paths.TOPICS) or () if t not in doomed)

    def _replicas(self, size: int) -> list[int]:
        return [int(b) for b in self._chance.sample(sorted(self._world.brokers), size)]

    def _create_topic(self) -> str | None:
        """Create a topic, sometimes with the name of one that was deleted."""
        topics = self._world.zookeeper.children(paths.TOPICS) or ()
        if len(topics) >= TOPICS_MAX:
            return None
        self._created += 1
        name = f"created{self._created % TOPICS_MAX}"
        if name in topics:
            return None
        size = self._chance.randint(1, 3)
        assignment = {n: self._replicas(size) for n in range(self._chance.randint(1, 3))}
        self._world.create_topic(name, assignment, min_insync_replicas=min(size, 2))
        return f"{name} {assignment}"

    def _delete_topic(self) -> str | None:
        topics = self._topics()
        if len(topics) < 2:
            return None
        name = self._chance.choice(topics)
        self._world.delete_topic(name)
        self.expected.take_back([p for p in self._world.partitions() if p.topic == name])
        return name

    def _create_again(self) -> str | None:
        """
        Delete a topic, and when it is gone create another one of its name, for other replicas.

        A request for a partition of any topic follows at once: a daemon claims the role for it.
        """
        topics = self._topics()
        if len(topics) < 2:
            return None
        name = self._chance.choice(topics)
        size, count = self._chance.randint(1, 3), len(self._world.topic(name).partitions)

        def create() -> None:
            if not self._is_running:
                return
            assignment = {n: self._replicas(size) for n in range(self._chance.randint(1, count))}
            self._world.create_topic(name, assignment, min_insync_replicas=min(size, 2))
            self._world.fabric.strike("created_again")
            requested = self._chance.choice(self._world.partitions())
            entries = {requested: self._target(requested)}
            request = self._world.submit_request(entries)
            self._world.fabric.note(f"{name} again: {assignment}; {request} {_text(entries)}")

        self.expected.take_back([p for p in self._world.partitions() if p.topic == name])
        self._world.delete_topic_for(name, create)
        return name

    def _add_partitions(self) -> str | None:
        topics = self._topics()
        if not topics:
            return None
        name = self._chance.choice(topics)
        partitions = self._world.topic(name).partitions
        if len(partitions) >= PARTITIONS_MAX:
            return None
        size = len(next(iter(partitions.values())).target_replicas)
        added = {len(partitions): self._replicas(size)}
        self._world.add_partitions(name, added)
        return f"{name} {added}"

    # --- settings that decide by what is elected and dropped -----------------------------------

    def _toggle_unclean(self) -> str | None:
        """Permit unclean elections of a topic, or forbid them."""
        return toggle_unclean(self._world, self._chance)

    def _toggle_min_isr(self) -> str | None:
        """Raise or lower ``min.insync.replicas`` of a topic."""
        return toggle_min_isr(self._world, self._chance)

    def _raise_at_rest(self) -> str | None:
        """Raise ``min.insync.replicas`` of a topic at rest; later ask too few replicas of it."""
        world, chance = self._world, self._chance
        at_rest = [
            topic
            for topic in self._topics()
            if world.fabric.config(topic).min_insync_replicas == 1
            and not world.zookeeper.children(paths.reassignment_topic_path(topic))
            and all(len(a.replicas) > 1 for a in world.topic(topic).partitions.values())
        ]
        if not at_rest:
            return None
        topic = chance.choice(at_rest)
        config = replace(world.fabric.config(topic), min_insync_replicas=2)
        world.fabric.change_config(topic, config)

        def submit() -> None:
            known = [p for p in world.partitions() if p.topic == topic]
            if self._is_running and known:
                entries = {p: world.assignment(p).target_replicas[:1] for p in known}
                world.fabric.note(f"too few: {world.submit_request(entries)} {_text(entries)}")

        good_for_s = world.invariants.settings_good_for_s
        world.schedule.call_between(good_for_s, good_for_s + LATER_S, submit)
        return topic

    def _outlive_isr(self) -> str | None:
        """
        Let a replica that fell behind be live when no member of the ISR is.

        The setting that permits unclean elections changes just before that.
        """
        world, chance = self._world, self._chance
        chosen = [p for p in world.partitions() if len(world.assignment(p).replicas) > 1]
        permitting = [p for p in chosen if world.fabric.config(p.topic).unclean_leader_election]
        chosen = permitting if permitting and chance.random() < 0.7 else chosen
        if not chosen or not all(b.is_alive for b in world.brokers.values()):
            return None
        partition = chance.choice(sorted(chosen))
        state = world.state(partition)
        replicas = world.assignment(partition).replicas
        if state is None or state.leader not in replicas:
            return None
        behind = [world.brokers[r] for r in replicas if r != state.leader]
        leader, topic = world.brokers[state.leader], partition.topic
        for broker in behind:
            broker.kill()

        def end() -> None:
            config = world.fabric.config(topic)
            permits = not config.unclean_leader_election
            world.fabric.note(f"{topic} permits unclean elections: {permits}; {leader.id} stops")
            world.fabric.change_config(topic, replace(config, unclean_leader_election=permits))
            leader.stop()
            for broker in behind:
                broker.start()

        world.schedule.call_between(*BEHIND_S, end)
        world.schedule.call_between(*GONE_S, leader.start)
        return f"{partition}: {[int(b.id) for b in behind]} fall behind {leader.id}"

    # --- clients of a Kafka controller ---------------------------------------------------------

    def _reassign_by_api(self) -> str | None:
        return self._alter(cancel=False)

    def _cancel_by_api(self) -> str | None:
        return self._alter(cancel=True)

    def _alter(self, *, cancel: bool) -> str | None:
        """Call AlterPartitionReassignments, which only a Kafka controller serves."""
        controller = self._world.active_kafka_controller()
        partitions = self._world.partitions()
        if controller is None or controller.duties is None or not partitions:
            return None
        partition = self._chance.choice(partitions)
        target = None if cancel else self._target(partition)
        controller.duties.alter(partition, target)
        self.expected.moved_by_others(partition)
        return f"{partition} -> {target}"

    def _elect_preferred(self) -> str | None:
        world = self._world
        if world.zookeeper.get(paths.PREFERRED_ELECTION) is not None:
            return None
        world.request_preferred_election(world.partitions())
        return "every partition"


def toggle_unclean(world: World, chance: Random) -> str | None:
    """Permit unclean elections of a topic, or forbid them."""
    topics = world.zookeeper.children(paths.TOPICS)
    if not topics:
        return None
    topic = chance.choice(sorted(topics))
    config = world.fabric.config(topic)
    permits = not config.unclean_leader_election
    world.fabric.change_config(topic, replace(config, unclean_leader_election=permits))
    return f"{topic} {'permits' if permits else 'forbids'} unclean elections"


def toggle_min_isr(world: World, chance: Random) -> str | None:
    """Raise or lower ``min.insync.replicas`` of a topic; at most what its partitions can have."""
    topics = world.zookeeper.children(paths.TOPICS)
    if not topics:
        return None
    topic = chance.choice(sorted(topics))
    config = world.fabric.config(topic)
    replicas = (len(a.target_replicas) for a in world.topic(topic).partitions.values())
    others = [n for n in range(1, min(replicas) + 1) if n != config.min_insync_replicas]
    if not others:
        return None
    least = chance.choice(others)
    world.fabric.change_config(topic, replace(config, min_insync_replicas=least))
    return f"{topic} min.insync.replicas={least}"


def _decoded(znode: Znode) -> Plan:
    plan = decode_legacy_plan(znode.data, ZkVersion(znode.version), Zxid(znode.czxid))
    return dict(plan.entries)


def _text(plan: Mapping[TopicPartition, Replicas]) -> str:
    return ", ".join(f"{p} -> {[int(r) for r in t]}" for p, t in plan.items())
