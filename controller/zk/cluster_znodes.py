"""Reads of the cluster's own znodes: brokers, guards of a claim, daemons."""

from __future__ import annotations

from controller.core.calls.records import ProducerIdsRead
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerEpoch, BrokerId
from controller.core.role.records import ClaimGuardsRead
from controller.zk.znode_reads import Hidden, ZnodeReads
from controller.znodes import paths
from controller.znodes.brokers import decode_broker
from controller.znodes.controller import (
    NOT_KRAFT,
    decode_controller,
    decode_feature,
    decode_leader,
    decode_migration,
)
from controller.znodes.json_documents import read_document
from controller.znodes.producer_ids import decode_producer_ids


class ClusterZnodes:
    """Reads these znodes through either reader."""

    def __init__(self, znodes: ZnodeReads) -> None:
        """Read through this reader."""
        self._znodes = znodes

    def broker_ids(self) -> frozenset[BrokerId]:
        """Return the ids of the registered brokers."""
        return frozenset(self._listed_brokers())

    def brokers(self) -> dict[BrokerId, LiveBroker]:
        """
        Return the registered brokers.

        A broker with an unreadable registration is live, too. It may speak any protocol, so it
        counts as one that forbids a claim.
        """
        brokers: dict[BrokerId, LiveBroker] = {}
        for broker, shown in self._znodes.show_many(self._listed_brokers(), paths.broker_path):
            if shown is None:
                continue
            epoch = BrokerEpoch(shown.czxid)
            read = (
                shown.reason
                if isinstance(shown, Hidden)
                else decode_broker(broker, shown.data, epoch)
            )
            if isinstance(read, str):
                self._znodes.unreadable(paths.broker_path(broker), read)
                read = LiveBroker(broker, epoch, (), has_features=True)
            brokers[broker] = read
        return brokers

    def cluster_id(self) -> str | None:
        """Return ``id`` of ``/cluster/id``; None where there is none, or it is unreadable."""
        found = self._znodes.get(paths.CLUSTER_ID)
        read = None if found is None else read_document(found.data)
        return None if read is None or isinstance(read, str) else str(read.get("id"))

    def guards(self) -> ClaimGuardsRead:
        """Return the facts that decide whether a claim is safe on this cluster."""
        controller = self._znodes.get(paths.CONTROLLER)
        feature = self._znodes.get(paths.FEATURE)
        migration = self._znodes.get(paths.MIGRATION)
        named = None if controller is None else decode_controller(controller.data)
        if isinstance(named, str):
            self._znodes.unreadable(paths.CONTROLLER, named)
            named = None
        return ClaimGuardsRead(
            controller_broker=None if named is None else named.broker_id,
            controller_is_ephemeral=controller is not None and controller.owner != 0,
            kraft_controller_epoch=NOT_KRAFT if named is None else named.kraft_controller_epoch,
            # An unreadable znode counts as enabled: a wrong guess would freeze the ISR.
            feature_enabled=feature is not None and decode_feature(feature.data) is not False,
            migration=None if migration is None else decode_migration(migration.data),
        )

    def producer_ids(self) -> ProducerIdsRead:
        """Return the last block of producer ids."""
        znode = self._znodes.get(paths.PRODUCER_IDS)
        if znode is None:
            return ProducerIdsRead(None)
        read = decode_producer_ids(znode.data)
        if isinstance(read, str):
            self._znodes.unreadable(paths.PRODUCER_IDS, read)
        return ProducerIdsRead(read, znode.version)

    def daemons(self) -> tuple[str | None, ...]:
        """Return ``HOST:PORT`` of each daemon's HTTP server, the leader first."""
        found = self._znodes.get_many(self.candidates(), lambda name: f"{paths.LEADER}/{name}")
        return tuple(
            decode_leader(znode.data)
            for _, znode in found
            if znode is not None and not isinstance(znode, Hidden)
        )

    def leader_address(self) -> str | None:
        """Return ``HOST:PORT`` of the leading daemon's HTTP server; None when none leads."""
        for name in self.candidates():
            found = self._znodes.get(f"{paths.LEADER}/{name}")
            if found is not None:
                return decode_leader(found.data)
        return None

    def _listed_brokers(self) -> list[BrokerId]:
        numbers = map(paths.parse_number, self._znodes.children(paths.BROKER_IDS))
        return [BrokerId(number) for number in numbers if number is not None]

    def candidates(self) -> list[str]:
        """Return the daemons' candidacies in the order of the numbers that ZooKeeper appended."""
        return sorted(self._znodes.children(paths.LEADER), key=lambda name: name[-10:])
