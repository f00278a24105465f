"""
The faults of a random campaign: what breaks, for how long, and how it is repaired.

Two kinds of place can break at the same time: the daemons, and the cluster below them. Of the
cluster only one part is broken at once (a broker, one of its disks, its link to the daemon, or
ZooKeeper): that is what replicas with min.insync.replicas 2 promise to survive.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kazoo.exceptions import KazooException, NoNodeError

from integration.rigs.chaos_daemons import Fleet
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.servers import Broker, ZooKeeperServer
from integration.rigs.waiting import eventually
from integration.rigs.zookeeper_ensembles import expire_session


class Fault(NamedTuple):
    """Something that has just been broken."""

    kind: str
    description: str
    lasts_s: float
    repair: Callable[[], None]


class ClusterFaults:
    """
    The faults of brokers, disks, ZooKeeper and connections.

    Args:
        cluster: With an ensemble, linked brokers and two disks each.
        dice: The source of randomness.
        report: Called with a description of each repair that an operator would have to make.
    """

    def __init__(
        self, cluster: Cluster, dice: random.Random, report: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._dice = dice
        self._report = report

    def draw(self) -> Fault:
        """Break something."""
        broker = self._dice.choice(list(self._cluster.brokers.values()))
        server = self._dice.choice(self._cluster.zookeepers)
        kinds: list[Callable[[], Fault]] = [
            lambda: self._broker_killed(broker),
            lambda: self._broker_killed(self._special_broker() or broker),
            lambda: self._broker_stopped(broker),
            lambda: self._broker_frozen(broker),
            lambda: self._link_refused(broker),
            lambda: self._link_swallows(broker),
            lambda: self._member_killed(server),
            lambda: self._ensemble_leader_killed(server),
            self._ensemble_restarted,
        ]
        if self._cluster.options.broker.disk_mb is None:
            # A disk fails by being renamed, which a mounted one cannot be.
            kinds.append(lambda: self._disk_failed(broker))
            kinds.append(lambda: self._disk_failed(self._special_broker() or broker))
        return self._dice.choice(kinds)()

    def _special_broker(self) -> Broker | None:
        """Return a broker that receives a copy now, if there is one."""
        receiving = sorted(self._receiving())
        return self._cluster.brokers[self._dice.choice(receiving)] if receiving else None

    def _receiving(self) -> Iterator[int]:
        for topic in self._cluster.zk.get_children("/brokers/topics"):
            for replicas in (self._cluster.topic(topic) or {}).get("adding_replicas", {}).values():
                yield from replicas

    def _broker_killed(self, broker: Broker) -> Fault:
        broker.kill()
        return Fault(
            "broker killed", f"{broker.name} is killed", self._some_s(), self._start(broker)
        )

    def _broker_stopped(self, broker: Broker) -> Fault:
        broker.stop()
        return Fault("broker stopped", f"{broker.name} stops", self._some_s(), self._start(broker))

    def _broker_frozen(self, broker: Broker) -> Fault:
        broker.freeze()

        def repair() -> None:
            broker.thaw()
            self._await_registered(broker)

        return Fault("broker frozen", f"{broker.name} hangs", self._some_s(), repair)

    def _disk_failed(self, broker: Broker) -> Fault:
        failed = broker.fail_disk(self._dice.randrange(len(broker.log_dirs)))

        def repair() -> None:
            broker.stop()
            broker.repair_disks()
            self._start(broker)()

        return Fault("disk failed", f"{broker.name} loses {failed.name}", self._some_s(), repair)

    def _link_refused(self, broker: Broker) -> Fault:
        link = broker.link
        assert link is not None
        link.refuse()
        description = f"connections of daemons to {broker.name} break"
        return Fault("link refused", description, self._some_s(), link.repair)

    def _link_swallows(self, broker: Broker) -> Fault:
        link = broker.link
        assert link is not None
        link.swallow()
        description = f"what daemons send to {broker.name} goes nowhere"
        return Fault("link black hole", description, self._some_s(), link.repair)

    def _member_killed(self, server: ZooKeeperServer) -> Fault:
        server.kill()
        return Fault("zookeeper killed", f"{server.name} is killed", self._some_s(), server.start)

    def _ensemble_leader_killed(self, otherwise: ZooKeeperServer) -> Fault:
        leading = [server for server in self._cluster.zookeepers if server.mode() == "leader"]
        leader = leading[0] if leading else otherwise
        leader.kill()
        description = f"{leader.name}, which leads, is killed"
        return Fault("zookeeper leader killed", description, self._some_s(), leader.start)

    def _ensemble_restarted(self) -> Fault:
        for server in self._cluster.zookeepers:
            server.kill()
        # At once: until then ZooKeeper answers no client, including the campaign.
        self._cluster.start_zookeepers()
        description = "every ZooKeeper is killed and started"
        return Fault("zookeeper restarted", description, 0.0, _nothing)

    def _start(self, broker: Broker) -> Callable[[], None]:
        def repair() -> None:
            for left in broker.clear_aborted_logs():
                self._report(f"{broker.name} left {left.parent.name}/{left.name} empty: deleted")
            broker.start()
            self._await_registered(broker)

        return repair

    def _await_registered(self, broker: Broker) -> None:
        eventually(
            lambda: self._cluster.is_registered(broker.broker_id),
            within_s=60,
            what=f"{broker.name} is registered",
        )

    def _some_s(self) -> float:
        return self._dice.uniform(1.0, 15.0)


class DaemonFaults:
    """
    The faults of the daemons and of their role.

    Args:
        cluster: The cluster of the daemons.
        fleet: The daemons.
        dice: The source of randomness.
    """

    def __init__(self, cluster: Cluster, fleet: Fleet, dice: random.Random) -> None:
        self._cluster = cluster
        self._fleet = fleet
        self._dice = dice

    def draw(self) -> Fault:
        """Break something."""
        one = self._fleet.leader() or self._dice.choice(self._fleet.daemons)
        kinds: list[Callable[[], Fault]] = [
            lambda: self._killed("daemon killed", [one]),
            lambda: self._killed(
                "standby killed", [d for d in self._fleet.daemons if d is not one]
            ),
            lambda: self._killed("all daemons killed", self._fleet.daemons),
            lambda: self._stopped(one),
            lambda: self._frozen(one),
            self._expired,
            self._seized,
        ]
        return self._dice.choice(kinds)()

    def _killed(self, kind: str, daemons: Sequence[Daemon]) -> Fault:
        for daemon in daemons:
            daemon.kill()
        names = " and ".join(daemon.name for daemon in daemons)
        return Fault(kind, f"{names} killed", self._some_s(), self._fleet.replace_dead)

    def _stopped(self, daemon: Daemon) -> Fault:
        code = daemon.stop()
        assert code == 0, f"{daemon.name} ended with {code}:\n{daemon.log_tail()}"
        return Fault(
            "daemon stopped", f"{daemon.name} stops", self._some_s(), self._fleet.replace_dead
        )

    def _frozen(self, daemon: Daemon) -> Fault:
        daemon.freeze()
        return Fault("daemon frozen", f"{daemon.name} hangs", self._some_s(), daemon.thaw)

    def _expired(self) -> Fault:
        holder = self._holder()
        if holder is None:
            return self._seized()
        expire_session(self._cluster.zookeeper_connect, holder)
        return Fault("session expired", "the daemon's session expires", 0.0, _nothing)

    def _seized(self) -> Fault:
        try:
            self._cluster.zk.delete("/controller")
        except (NoNodeError, KazooException):
            return Fault("role seized", "the role is free", 0.0, _nothing)
        return Fault("role seized", "the role is taken from its owner", 0.0, _nothing)

    def _holder(self) -> int | None:
        """Return the session of the daemon that leads, None when none does."""
        candidates = self._cluster.zk.get_children("/reassigner/leader")
        first = min(candidates, key=lambda name: name.rpartition("_")[2], default="none")
        stat = self._cluster.zk.exists(f"/reassigner/leader/{first}")
        return None if stat is None else int(stat.ephemeralOwner)

    def _some_s(self) -> float:
        return self._dice.uniform(0.5, 12.0)


def _nothing() -> None:
    """End the faults that end by themselves."""
