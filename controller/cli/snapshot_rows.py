"""What ``pipeline snapshot`` reads of a running cluster, as rows that come one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.cli.ports import InspectorPort
from controller.core.model import BrokerId, LiveBroker, TopicAssignment
from controller.settings import Settings

if TYPE_CHECKING:
    from controller.brokers.cluster_survey import ClusterSurvey


@dataclass(slots=True)
class FleetRows:
    """A cluster's answers; ``capacities`` is whole when ``held`` has come to its end."""

    survey: ClusterSurvey
    brokers: Mapping[BrokerId, LiveBroker]
    topics: Mapping[str, TopicAssignment]
    min_insync: Mapping[str, int | str]
    settings: Mapping[str, Mapping[str, str]]
    """Of their own, by topic."""
    led: tuple[Any, ...] = ()
    cluster_id: str = ""
    capacities: dict[BrokerId, int | None] = field(default_factory=dict)

    def held_rows(self) -> Iterator[tuple[str, int, int, int, str]]:
        """Yield topic, partition, broker, bytes and log directory."""
        for holdings in self.survey.holdings(self.brokers.values()):
            self.capacities[holdings.broker] = holdings.capacity
            for replica in holdings.replicas:
                topic, partition = replica.partition
                yield topic, partition, holdings.broker, replica.size, replica.log_dir

    def led_rows(self) -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
        """Yield topic, partition, leader and ISR."""
        for row in self.led:
            yield row.partition.topic, row.partition.partition, row.leader, row.isr

    def assigned_rows(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Yield topic, partition and replicas; of what is being reassigned, those it ends with."""
        for name, topic in self.topics.items():
            for partition, assignment in topic.partitions.items():
                yield name, partition, assignment.target_replicas

    def topic_rows(self) -> Iterator[tuple[str, int | None, Mapping[str, str]]]:
        """Yield topic, effective min.insync.replicas and the settings of its own."""
        for name in self.topics:
            least = self.min_insync.get(name)
            yield name, least if isinstance(least, int) else None, self.settings.get(name, {})

    def broker_rows(self) -> Iterator[tuple[int, str | None, str | None, int | None, bool]]:
        """Yield every broker that is registered or holds replicas."""
        assigned = {b for _, _, replicas in self.assigned_rows() for b in replicas}
        for broker in map(BrokerId, sorted(assigned | self.brokers.keys())):
            live = self.brokers.get(broker)
            host = live.endpoints[0].host if live is not None and live.endpoints else None
            rack = None if live is None else live.rack
            yield int(broker), rack, host, self.capacities.get(broker), live is not None

    @property
    def reassigning(self) -> int:
        """How many partitions are being reassigned while the snapshot is taken."""
        return sum(a.is_reassigning for t in self.topics.values() for a in t.partitions.values())


def survey_fleet(settings: Settings, inspector: InspectorPort) -> FleetRows:
    """
    Read what there is to read at once; sizes come as they are asked for.

    Args:
        settings: How to reach the brokers.
        inspector: ZooKeeper.

    """
    from controller.brokers.broker_survey import BrokerSurvey  # noqa: PLC0415 - as above
    from controller.brokers.cluster_survey import ClusterSurvey  # noqa: PLC0415 - only this needs brokers
    from controller.brokers.connections import quiet_kafka  # noqa: PLC0415 - as above
    from controller.brokers.endpoints import listeners_of, security_of  # noqa: PLC0415 - as above

    quiet_kafka()
    security, listeners = security_of(settings), listeners_of(settings)
    survey = ClusterSurvey(security, listeners)
    brokers = dict(inspector.survey_brokers())
    topics = inspector.survey_topics()
    leading = survey.leading(brokers.values())
    least = BrokerSurvey(security, listeners).min_insync(brokers.values(), topics)
    own = inspector.survey_topic_settings()
    return FleetRows(survey, brokers, topics, least, own, leading.partitions, leading.cluster_id)
